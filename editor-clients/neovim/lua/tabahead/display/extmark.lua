--- Ghost text of our own, in extmarks: inline text at the cursor, and lines below it.
local M = {}

local namespace = vim.api.nvim_create_namespace('tabahead')

--- Tabs as the blanks that they take up from a column of the screen on.
---@param text string
---@param column integer
---@param bufnr integer
---@return string
local function expand(text, column, bufnr)
  local tabstop = vim.bo[bufnr].tabstop
  local expanded = text:gsub('([^\t]*)\t', function(head)
    column = column + vim.fn.strdisplaywidth(head)
    local width = tabstop - column % tabstop
    column = column + width
    return head .. (' '):rep(width)
  end)
  return expanded
end

---@param insertion tabahead.Insertion
---@param col integer
---@param text string
---@param options table
local function mark(bufnr, insertion, col, text, options)
  options.virt_text = { { text, 'TabaheadGhost' } }
  options.hl_mode = 'combine'
  vim.api.nvim_buf_set_extmark(bufnr, namespace, insertion.row, col, options)
end

--- Where the new pieces of a text stand between the characters that it covers: (offset among them,
--- piece), first to last; nil where it does not have them in their order.
---@param text string
---@param covered string
---@return {[1]: integer, [2]: string}[]|nil
local function pieces(text, covered)
  local found, stop = {}, #text
  for offset = #covered, 1, -1 do
    local at = stop
    while at > 0 and text:byte(at) ~= covered:byte(offset) do
      at = at - 1
    end
    if at == 0 then
      return nil
    end
    table.insert(found, 1, { offset, text:sub(at + 1, stop) })
    stop = at - 1
  end
  table.insert(found, 1, { 0, text:sub(1, stop) })
  return found
end

--- One line: what is new stands between what is there.
---@param bufnr integer
---@param insertion tabahead.Insertion
---@param column integer
---@param covered string
---@return boolean drawn
local function draw_line(bufnr, insertion, column, covered)
  local is_ascii = not covered:find('[\128-\255]')
  local found = is_ascii and pieces(insertion.text, covered)
  if not found then
    return false
  end
  for _, piece in ipairs(found) do
    if piece[2] ~= '' then
      local text = expand(piece[2], column, bufnr)
      mark(bufnr, insertion, insertion.col + piece[1], text, { virt_text_pos = 'inline' })
    end
  end
  return true
end

--- What stands right of the cursor is hidden, and shown behind the last line.
---@param bufnr integer
---@param insertion tabahead.Insertion
---@param column integer
---@param right string
local function draw_block(bufnr, insertion, column, right)
  local lines = vim.split(insertion.text, '\n', { plain = true })
  local below = {}
  for number = 2, #lines do
    below[#below + 1] = { { expand(lines[number], 0, bufnr), 'TabaheadGhost' } }
  end
  local covered = insertion.end_col - insertion.col
  local first = expand(lines[1], column, bufnr)
  local last = below[#below]
  if last and #right > covered then
    last[#last + 1] = { right:sub(covered + 1), 'Normal' }
  end
  local is_inline = right == '' and insertion.start_col == insertion.col
  if not is_inline then
    local hidden = vim.fn.strdisplaywidth(right, column) + insertion.col - insertion.start_col
    first = first .. (' '):rep(hidden - vim.fn.strdisplaywidth(first, column))
  end
  local options = { virt_text_pos = is_inline and 'inline' or 'overlay', virt_lines = below }
  mark(bufnr, insertion, insertion.start_col, first, options)
end

---@param bufnr integer
---@param insertions tabahead.Insertion[]
---@param index integer
function M.show(bufnr, insertions, index)
  M.hide(bufnr)
  local insertion = insertions[index]
  local line = vim.api.nvim_get_current_line()
  local column = vim.fn.strdisplaywidth(line:sub(1, insertion.start_col))
  local right, covered = line:sub(insertion.col + 1), line:sub(insertion.col + 1, insertion.end_col)
  local is_line = not insertion.text:find('\n') and insertion.start_col == insertion.col
  if not is_line or not draw_line(bufnr, insertion, column, covered) then
    draw_block(bufnr, insertion, column, right)
  end
  if #insertions > 1 then
    local more = (' (%d/%d)'):format(index, #insertions)
    vim.api.nvim_buf_set_extmark(bufnr, namespace, insertion.row, #line, {
      virt_text = { { more, 'TabaheadGhostMore' } },
      virt_text_pos = 'eol',
    })
  end
end

---@param bufnr integer
function M.hide(bufnr)
  if vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

--- Nobody turns it off.
---@return boolean
function M.is_on()
  return true
end

--- Nobody else asks here.
---@param send fun()
function M.asking(send)
  send()
end

--- Start the server.
---@param cmd string[]
---@param dispatchers vim.lsp.rpc.Dispatchers
---@param spawn vim.lsp.rpc.ExtraSpawnParams
---@return vim.lsp.rpc.PublicClient
function M.start(cmd, dispatchers, spawn)
  return vim.lsp.rpc.start(cmd, dispatchers, spawn)
end

--- Neovim's own display stays out of it where somebody has enabled it for all.
---@param client vim.lsp.Client
function M.attach(client)
  if vim.fn.has('nvim-0.12') == 1 then
    vim.lsp.inline_completion.enable(false, { client_id = client.id })
  end
end

return M
