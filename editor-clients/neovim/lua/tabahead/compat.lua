--- What differs between Neovim 0.10, 0.11 and 0.12: calling a client, and counting in its units.
local M = {}

local is_new = vim.fn.has('nvim-0.11') == 1

--- Call a method of a client, which 0.10 has as plain functions.
---@param client vim.lsp.Client
---@param name string
---@param ... any
---@return any ...
function M.call(client, name, ...)
  if is_new then
    return client[name](client, ...)
  end
  return client[name](...)
end

--- Bytes before the `index`-th unit of a line; the line's length where it has fewer.
---@param line string
---@param index integer
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return integer
function M.byte_index(line, index, encoding)
  if encoding == 'utf-8' then
    return math.min(index, #line)
  elseif index >= M.num_units(line, encoding) then
    return #line
  elseif is_new then
    return vim.str_byteindex(line, encoding, index)
  end
  return vim.str_byteindex(line, index, encoding == 'utf-16')
end

--- Length of a text in the units of an encoding.
---@param text string
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return integer
function M.num_units(text, encoding)
  if encoding == 'utf-8' then
    return #text
  elseif is_new then
    return vim.str_utfindex(text, encoding)
  end
  local utf32, utf16 = vim.str_utfindex(text)
  return encoding == 'utf-16' and utf16 or utf32
end

return M
