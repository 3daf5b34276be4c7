--- `:checkhealth tabahead`: what works, what does not, and what to do about it.
local completion_keys = require('tabahead.keys')
local config = require('tabahead.config')
local server = require('tabahead.server')
local status = require('tabahead.status')

local M = {}

local health = vim.health

--- Plugins that draw ghost text, and the module or function that is there once they run.
local OTHERS = {
  { 'copilot.vim', fn = 'copilot#Accept' },
  { 'copilot.lua', module = 'copilot.suggestion' },
  { 'codeium.vim or windsurf.vim', fn = 'codeium#Accept' },
  { 'codeium.nvim or windsurf.nvim', module = 'codeium.virtual_text' },
  { 'supermaven-nvim', module = 'supermaven-nvim.completion_preview' },
  { 'minuet-ai.nvim', module = 'minuet.virtualtext' },
  { 'llama.vim', fn = 'llama#fim' },
  { 'llm.nvim', module = 'llm.completion' },
  { 'cmp-tabnine or tabnine-nvim', module = 'tabnine' },
}

local function check_neovim()
  health.start('tabahead: Neovim')
  local version = tostring(vim.version())
  if vim.fn.has('nvim-0.10') == 0 then
    health.error(('Neovim %s is too old'):format(version), { 'Update to 0.10 or later.' })
    return false
  end
  local is_built_in = package.loaded['tabahead.display.builtin'] ~= nil
  local drawn = is_built_in and 'by vim.lsp.inline_completion' or "by this plugin's own marks"
  health.ok(('Neovim %s; ghost text is drawn %s'):format(version, drawn))
  return true
end

---@return string|nil version of the program, as it says itself
local function ask_version()
  local options = { text = true, timeout = 20000, env = server.environment() }
  local started, process = pcall(vim.system, server.verb('--version'), options)
  if not started then -- it cannot be run at all: the message says why
    return nil, process
  end
  local done = process:wait()
  if done.code ~= 0 then
    return nil, vim.trim(done.stderr)
  end
  return vim.trim(done.stdout)
end

local function check_server()
  health.start('tabahead: server')
  local cmd, program = server.command()
  if not program then
    health.error(('`%s` was not found'):format(cmd[1]), { server.INSTALL })
    return
  end
  local version, fault = ask_version()
  if version then
    health.ok(('%s: `%s`'):format(version, table.concat(cmd, ' ')))
  else
    health.error(('`%s` does not run: %s'):format(program, fault), { server.INSTALL })
  end
  if not server.client() then
    local advice = { '`:Tabahead restart` starts it; its log: ' .. vim.lsp.log.get_filename() }
    health.error('it does not run: ' .. status.get().message, advice)
    return
  end
  health.ok(('it runs, version %s'):format(status.version or 'unknown'))
  local told = status.get()
  local model = told.model and ('%s on %s'):format(told.model, told.provider or 'no provider')
  health.info('model: ' .. (model or 'none yet'))
  local tell = ({ warning = health.warn, error = health.error })[told.kind] or health.info
  tell('how things stand: ' .. told.message)
end

--- Whether a buffer is completed, or why not.
---@param bufnr integer
---@return boolean
local function check_buffer(bufnr)
  local name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(bufnr), ':~:.')
  local client = server.client()
  if vim.b[bufnr].tabahead == false then
    health.info(('`%s` is off (`:Tabahead toggle`)'):format(name))
  elseif client and vim.lsp.buf_is_attached(bufnr, client.id) then
    return true
  else
    local refusal = server.refusal(bufnr) or 'the server does not run'
    health.info(('`%s` is not completed: %s'):format(name ~= '' and name or '[No Name]', refusal))
  end
  return false
end

local function check_buffers()
  health.start('tabahead: buffers')
  local num_completed = 0
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    local is_edited = vim.api.nvim_buf_is_loaded(bufnr) and vim.bo[bufnr].buflisted
    if is_edited and check_buffer(bufnr) then
      num_completed = num_completed + 1
    end
  end
  if num_completed == 0 then
    health.warn('no buffer is completed', { 'Open a file, or write this one.' })
  else
    health.ok(('%d buffers are completed'):format(num_completed))
  end
end

local function check_keys()
  health.start('tabahead: keys')
  for name, lhs in vim.spairs(config.options.keys) do
    local mapping = lhs and completion_keys.mapping_of(lhs)
    if not lhs then
      health.info(('%s has no key'):format(name))
    elseif mapping and completion_keys.is_ours(mapping) then
      health.ok(('%s: %s'):format(name, lhs))
    else
      local owner = mapping and (mapping.desc or mapping.rhs or 'a function') or 'nothing'
      health.warn(('%s: %s now does something else: %s'):format(name, lhs, owner), {
        'Call setup() after what maps it, or choose another key: '
          .. ("setup({ keys = { %s = '<C-l>' } })"):format(name),
      })
    end
    for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
      local taken = lhs and completion_keys.mapping_of(lhs, bufnr)
      if taken then
        local owner = taken.desc or taken.rhs or 'a function'
        local file = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(bufnr), ':~:.')
        health.warn(('%s: %s is mapped in `%s`: %s'):format(name, lhs, file, owner), {
          'There that comes first; tabahead gets the key only where that mapping passes it on.',
        })
      end
    end
  end
end

local function check_others()
  health.start('tabahead: other ghost text')
  local found = {}
  for _, other in ipairs(OTHERS) do
    if other.module and package.loaded[other.module] then
      found[#found + 1] = other[1]
    elseif other.fn and vim.fn.exists('*' .. other.fn) == 1 then
      found[#found + 1] = other[1]
    end
  end
  for _, client in ipairs(vim.lsp.get_clients()) do
    if client.name ~= 'tabahead' and client.server_capabilities.inlineCompletionProvider then
      found[#found + 1] = 'the language server ' .. client.name
    end
  end
  if #found == 0 then
    health.ok('no other source of ghost text was found')
  end
  for _, name in ipairs(found) do
    health.warn(name .. ' shows ghost text too', { 'Turn one of the two off.' })
  end
end

function M.check()
  if not check_neovim() then
    return
  end
  if not require('tabahead').is_set_up then
    health.error('setup() has not been called', {
      "Put require('tabahead').setup() into your configuration.",
    })
    return
  end
  check_server()
  check_buffers()
  check_keys()
  check_others()
end

return M
