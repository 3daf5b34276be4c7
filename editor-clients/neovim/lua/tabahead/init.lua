--- tabahead for Neovim: what users and their mappings call. `:help tabahead` describes it.
local M = {}

--- Whether setup() has been called.
M.is_set_up = false

---@class tabahead.Display how ghost text comes onto the screen
---@field start fun(cmd: string[], dispatchers: table, spawn: table): vim.lsp.rpc.PublicClient
---@field attach fun(client: vim.lsp.Client, bufnr: integer)
---@field is_on fun(bufnr: integer): boolean
---@field asking fun(send: fun()) runs `send`, which sends a request
---@field show fun(bufnr: integer, insertions: tabahead.Insertion[], index: integer)
---@field hide fun(bufnr: integer)

---@return tabahead.Display
local function display()
  local chosen = require('tabahead.config').options.display
  if chosen == 'auto' then
    chosen = vim.fn.has('nvim-0.12') == 1 and 'builtin' or 'extmark'
  end
  return require('tabahead.display.' .. chosen)
end

local function watch()
  local completion, server = require('tabahead.completion'), require('tabahead.server')
  local group = vim.api.nvim_create_augroup('tabahead', {})
  local function on(events, callback, pattern)
    vim.api.nvim_create_autocmd(events, { group = group, callback = callback, pattern = pattern })
  end
  on({ 'BufEnter', 'FileType', 'BufFilePost', 'BufWritePost' }, function(event)
    server.attach(event.buf)
  end)
  on('BufFilePre', function(event)
    server.rename(event.buf)
  end)
  on({ 'InsertEnter', 'CursorMovedI', 'TextChangedI', 'TextChangedP' }, completion.follow)
  on({ 'InsertLeave', 'BufLeave' }, completion.stop)
  on('ModeChanged', completion.stop, 'i*:n*') -- <C-c> is no InsertLeave
  on('User', completion.ask_again, 'TabaheadReady')
end

--- Start tabahead. Raises a message that says what is wrong with the options.
---@param options table|nil
function M.setup(options)
  require('tabahead.config').take(options)
  local chosen = display()
  require('tabahead.server').use(chosen)
  require('tabahead.completion').use(chosen)
  watch()
  require('tabahead.keys').set()
  M.is_set_up = true
  require('tabahead.server').attach_all()
end

--- Change settings of the server while it runs; those that are not named stay.
---@param settings table
function M.configure(settings)
  local options = require('tabahead.config').options
  options.settings = vim.tbl_deep_extend('force', options.settings, settings)
  require('tabahead.server').configure()
end

---@return boolean done false: nothing is shown
function M.accept()
  return require('tabahead.completion').accept()
end

---@return boolean
function M.accept_word()
  return require('tabahead.completion').accept('word')
end

---@return boolean
function M.accept_line()
  return require('tabahead.completion').accept('line')
end

--- Whether ghost text is shown.
---@return boolean
function M.is_shown()
  return require('tabahead.completion').is_shown()
end

function M.next()
  require('tabahead.completion').select(1)
end

function M.previous()
  require('tabahead.completion').select(-1)
end

function M.trigger()
  require('tabahead.completion').trigger()
end

function M.dismiss()
  require('tabahead.completion').drop()
end

function M.explain()
  require('tabahead.explain').run()
end

---@param minutes number|nil
function M.pause(minutes)
  require('tabahead.pause').pause(minutes)
end

function M.resume()
  require('tabahead.pause').resume()
end

function M.toggle()
  require('tabahead.pause').toggle()
end

function M.restart()
  require('tabahead.server').restart()
end

function M.statistics()
  require('tabahead.statistics').show()
end

---@return tabahead.Status
function M.status()
  return require('tabahead.status').get()
end

--- For 'statusline'.
---@return string
function M.statusline()
  return require('tabahead.status').line()
end

return M
