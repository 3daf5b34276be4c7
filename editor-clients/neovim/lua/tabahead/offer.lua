--- An answer of the server held against the buffer as it is now: what is left to insert, and where.
--- Counts in bytes; draws and changes nothing.
local compat = require('tabahead.compat')

local M = {}

---@class tabahead.Place where the cursor was when the server was asked
---@field bufnr integer
---@field tick integer
---@field row integer from 0, as in the API
---@field col integer
---@field line string the text of the row

---@class tabahead.Item one text that the server offers
---@field text string
---@field before string the line left of it
---@field head string what it replaces left of the cursor
---@field covered string what it replaces right of the cursor
---@field tail string the rest of the line
---@field row integer
---@field encoding string in whose units the server counts
---@field command lsp.Command|nil reports its acceptance

---@class tabahead.Insertion what is left of an item
---@field item tabahead.Item
---@field row integer
---@field col integer the cursor
---@field start_col integer
---@field end_col integer
---@field text string
---@field num_typed integer bytes of the item that are in the buffer already

--- The place of the cursor in the current window.
---@return tabahead.Place
function M.here()
  local bufnr = vim.api.nvim_get_current_buf()
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  return {
    bufnr = bufnr,
    tick = vim.api.nvim_buf_get_changedtick(bufnr),
    row = row - 1,
    col = col,
    line = vim.api.nvim_get_current_line(),
  }
end

---@param place tabahead.Place
---@param raw lsp.InlineCompletionItem
---@param encoding string
---@return tabahead.Item|nil item nil: of a form that tabahead never sends
local function new_item(place, raw, encoding)
  local range = raw.range
  if type(raw.insertText) ~= 'string' or not range then
    return nil
  end
  local start = compat.byte_index(place.line, range.start.character, encoding)
  local stop = compat.byte_index(place.line, range['end'].character, encoding)
  local is_here = range.start.line == place.row and range['end'].line == place.row
  if not is_here or start > place.col or stop < place.col then
    return nil
  end
  return {
    text = raw.insertText,
    before = place.line:sub(1, start),
    head = place.line:sub(start + 1, place.col),
    covered = place.line:sub(place.col + 1, stop),
    tail = place.line:sub(stop + 1),
    row = place.row,
    encoding = encoding,
    command = raw.command,
  }
end

---@param place tabahead.Place
---@param result lsp.InlineCompletionList|lsp.InlineCompletionItem[]
---@param encoding string
---@return tabahead.Item[]
function M.items(place, result, encoding)
  local items = {}
  for _, raw in ipairs(result.items or result) do
    items[#items + 1] = new_item(place, raw, encoding)
  end
  return items
end

--- What was typed since the item's start, or nil where the text around it has changed.
---@param item tabahead.Item
---@param place tabahead.Place
---@return string|nil
local function typed_at(item, place)
  local is_before = place.row < item.row or (place.row == item.row and place.col < #item.before)
  if is_before or place.line:sub(place.col + 1) ~= item.covered .. item.tail then
    return nil
  end
  local first = vim.api.nvim_buf_get_lines(place.bufnr, item.row, item.row + 1, false)[1]
  if not vim.startswith(first, item.before) then
    return nil
  end
  local typed =
    vim.api.nvim_buf_get_text(place.bufnr, item.row, #item.before, place.row, place.col, {})
  return table.concat(typed, '\n')
end

--- What is left of an item at a place; nil: something else was typed, or nothing is missing.
---@param item tabahead.Item
---@param place tabahead.Place
---@return tabahead.Insertion|nil
function M.left_of(item, place)
  local typed = typed_at(item, place)
  if not typed then
    return nil
  end
  local start_col, text = place.col, item.text:sub(#typed + 1)
  if not vim.startswith(item.text, typed) then
    if typed ~= item.head or place.row ~= item.row then
      return nil
    end
    -- It begins further left than the line does, and replaces the blanks there.
    start_col, text, typed = #item.before, item.text, ''
  end
  if text == item.covered and start_col == place.col then
    return nil
  end
  return {
    item = item,
    row = place.row,
    col = place.col,
    start_col = start_col,
    end_col = place.col + #item.covered,
    text = text,
    num_typed = #typed,
  }
end

return M
