--- Putting text into the buffer at the cursor, as one step to undo.
local M = {}

--- What is typed before and what comes after can be undone by itself.
local function break_undo()
  vim.go.undolevels = vim.go.undolevels
end

--- Replace bytes of the cursor's line in the current window, and set the cursor behind them.
---@param row integer
---@param start_col integer
---@param end_col integer
---@param text string
function M.replace(row, start_col, end_col, text)
  break_undo()
  local lines = vim.split(text, '\n', { plain = true })
  vim.api.nvim_buf_set_text(0, row, start_col, row, end_col, lines)
  local col = #lines[#lines] + (#lines == 1 and start_col or 0)
  vim.api.nvim_win_set_cursor(0, { row + #lines, col })
  break_undo()
end

return M
