--- The keys of insert mode. A key that has nothing to do does what it did before.
local completion = require('tabahead.completion')
local config = require('tabahead.config')

local M = {}

local ACTIONS = {
  accept = 'accept()',
  accept_word = 'accept_word()',
  accept_line = 'accept_line()',
  next = 'next()',
  previous = 'previous()',
  trigger = 'trigger()',
  dismiss = 'dismiss()',
}

---@type table<string, table|false> by key: the mapping that was there before ours
local before = {}

---@param lhs string
---@param bufnr integer|nil nil: the global one
---@return table|nil mapping
function M.mapping_of(lhs, bufnr)
  local raw = vim.keycode(lhs)
  local mappings = bufnr and vim.api.nvim_buf_get_keymap(bufnr, 'i') or vim.api.nvim_get_keymap('i')
  for _, mapping in ipairs(mappings) do
    if vim.keycode(mapping.lhs) == raw then
      return mapping
    end
  end
end

---@param mapping table
---@return boolean
function M.is_ours(mapping)
  return vim.startswith(mapping.desc or '', 'tabahead: ')
end

--- Whether a completion menu is open: Neovim's, or that of nvim-cmp or blink.cmp.
---@return boolean
local function is_menu_open()
  local cmp, blink = package.loaded['cmp'], package.loaded['blink.cmp']
  return vim.fn.pumvisible() == 1
    or (cmp ~= nil and cmp.visible())
    or (blink ~= nil and blink.is_menu_visible())
    or false
end

---@param direction integer
---@return boolean
local function is_in_snippet(direction)
  return vim.snippet.active({ direction = direction })
end

--- What the key did before, as the keys that an <expr> mapping returns.
---@param lhs string
---@return string
local function fall_back(lhs)
  local mapping = before[lhs]
  if not mapping then
    return vim.keycode(lhs)
  end
  local keys
  if mapping.callback and mapping.expr == 1 then
    keys = mapping.callback() or ''
  elseif mapping.callback then
    return vim.keycode(("<Cmd>lua require('tabahead.keys').call(%q)<CR>"):format(lhs))
  elseif mapping.expr == 1 then
    keys = vim.api.nvim_eval((mapping.rhs:gsub('<SID>', ('<SNR>%d_'):format(mapping.sid))))
  else
    keys = vim.keycode((mapping.rhs:gsub('<SID>', ('<SNR>%d_'):format(mapping.sid))))
  end
  if mapping.expr == 1 and mapping.replace_keycodes == 1 then
    keys = vim.keycode(keys)
  end
  if mapping.noremap == 0 then
    vim.api.nvim_feedkeys(keys, 'mi', false)
    return ''
  end
  return keys
end

--- Run what a key did before, where that was a function.
---@param lhs string
function M.call(lhs)
  before[lhs].callback()
end

---@param name string
---@param lhs string
---@return string
local function keys_for(name, lhs)
  if vim.keycode(lhs) == vim.keycode('<Tab>') then
    if is_menu_open() then
      return fall_back(lhs)
    elseif is_in_snippet(1) then
      return vim.keycode('<Cmd>lua vim.snippet.jump(1)<CR>')
    end
  end
  if name ~= 'trigger' and not completion.is_shown() then
    return fall_back(lhs)
  end
  return vim.keycode(("<Cmd>lua require('tabahead').%s<CR>"):format(ACTIONS[name]))
end

--- Set the keys of the options, and give back those that were ours.
function M.set()
  for lhs, mapping in pairs(before) do
    vim.keymap.del('i', lhs)
    if mapping then
      vim.fn.mapset('i', false, mapping)
    end
  end
  before = {}
  for name, lhs in pairs(config.options.keys) do
    if lhs then
      before[lhs] = M.mapping_of(lhs) or false
      vim.keymap.set('i', lhs, function()
        return keys_for(name, lhs)
      end, { expr = true, replace_keycodes = false, desc = 'tabahead: ' .. name })
    end
  end
end

return M
