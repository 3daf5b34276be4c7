--- How much of a text "the next word" and "the next line" are.
local M = {}

--- The blanks that the text begins with, line breaks too, and one word or run of other signs; what
--- a word is, 'iskeyword' of the current buffer says.
---@param text string
---@return string
function M.word(text)
  local word = vim.fn.matchstr(text, [[^\_s*\%(\k\+\|\%(\k\@!\S\)\+\)]])
  return word ~= '' and word or text
end

--- The rest of the line; at the end of one, the next.
---@param text string
---@return string
function M.line(text)
  return text:match('^\n?[^\n]*')
end

return M
