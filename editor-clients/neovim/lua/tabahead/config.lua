--- The options of setup(): their defaults, and a clear word about what is wrong with them.
local M = {}

---@class tabahead.Options
---@field cmd string[]|nil how the server is started; nil: `tabahead` on the PATH
---@field settings table the server's settings
---@field keys table<string, string|false>
---@field display 'auto'|'builtin'|'extmark'
---@field root_markers string[]

---@return tabahead.Options
local function defaults()
  return {
    cmd = nil,
    settings = {},
    keys = {
      accept = '<Tab>',
      accept_word = '<M-Right>',
      accept_line = '<M-C-Right>',
      next = '<M-]>',
      previous = '<M-[>',
      trigger = '<M-Bslash>',
      dismiss = false,
    },
    display = 'auto',
    root_markers = { '.git', 'tabahead.toml' },
  }
end

---@type tabahead.Options
M.options = defaults()

--- Single characters to add, remove or change to make one text of the other.
---@param a string
---@param b string
---@return integer
local function distance(a, b)
  local row = {}
  for j = 0, #b do
    row[j] = j
  end
  for i = 1, #a do
    local diagonal = row[0]
    row[0] = i
    for j = 1, #b do
      local changed = diagonal + (a:byte(i) == b:byte(j) and 0 or 1)
      diagonal = row[j]
      row[j] = math.min(changed, row[j] + 1, row[j - 1] + 1)
    end
  end
  return row[#b]
end

---@param name string
---@param known string[]
---@return string
function M.nearest(name, known)
  local best, least = known[1], math.huge
  for _, candidate in ipairs(known) do
    local steps = distance(name, candidate)
    if steps < least then
      best, least = candidate, steps
    end
  end
  return best
end

---@param message string
---@param ... any
local function fail(message, ...)
  error(('tabahead: ' .. message):format(...), 0)
end

---@param given table
---@param known string[]
---@param prefix string
local function check_names(given, known, prefix)
  for name in pairs(given) do
    if not vim.list_contains(known, name) then
      local nearest = prefix .. M.nearest(tostring(name), known)
      fail('unknown option `%s%s`; did you mean `%s`?', prefix, tostring(name), nearest)
    end
  end
end

---@param value any
---@return boolean
local function is_list_of_strings(value)
  return vim.islist(value)
    and vim.iter(value):all(function(item)
      return type(item) == 'string'
    end)
end

---@param cmd any
local function check_cmd(cmd)
  if cmd == nil then
    return
  end
  if not is_list_of_strings(cmd) or #cmd == 0 then
    fail("`cmd` must be a list of strings, such as { 'tabahead', '--stdio' }")
  elseif not vim.list_contains(cmd, '--stdio') then
    fail('`cmd` must hold `--stdio`, by which the server is told to speak with an editor')
  end
end

---@param keys any
---@param known string[]
local function check_keys(keys, known)
  if type(keys) ~= 'table' then
    fail("`keys` must be a table, such as { accept = '<C-l>', next = false }")
  end
  check_names(keys, known, 'keys.')
  for name, key in pairs(keys) do
    if key ~= false and (type(key) ~= 'string' or key == '') then
      fail("`keys.%s` must be a key such as '<C-l>', or false for none", name)
    end
  end
end

--- Take the user's options over the defaults. Raises a message for the user.
---@param given table|nil
---@return tabahead.Options
function M.take(given)
  given = given or {}
  if type(given) ~= 'table' then
    fail('setup() takes a table of options, not a %s', type(given))
  end
  local base = defaults()
  check_names(given, { 'cmd', 'settings', 'keys', 'display', 'root_markers' }, '')
  check_cmd(given.cmd)
  if given.settings ~= nil and type(given.settings) ~= 'table' then
    fail("`settings` must be a table of the server's settings, such as { mode = 'line' }")
  end
  if given.keys ~= nil then
    check_keys(given.keys, vim.tbl_keys(base.keys))
  end
  local displays = { 'auto', 'builtin', 'extmark' }
  if given.display ~= nil and not vim.list_contains(displays, given.display) then
    fail("`display` must be 'auto', 'builtin' or 'extmark', not '%s'", tostring(given.display))
  elseif given.display == 'builtin' and vim.fn.has('nvim-0.12') == 0 then
    fail("`display = 'builtin'` needs Neovim 0.12; leave it out, or take 'extmark'")
  end
  if given.root_markers ~= nil and not is_list_of_strings(given.root_markers) then
    fail("`root_markers` must be a list of file names, such as { '.git' }")
  end
  M.options = vim.tbl_deep_extend('force', base, given)
  return M.options
end

return M
