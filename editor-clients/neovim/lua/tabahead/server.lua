--- The one server: found, started, told of buffers and settings, started again when it dies.
local compat = require('tabahead.compat')
local config = require('tabahead.config')
local status = require('tabahead.status')

local M = {}

local NAME = 'tabahead'
-- As the protocol numbers them.
local LEVELS = { vim.log.levels.ERROR, vim.log.levels.WARN, vim.log.levels.INFO }
local MAX_DEATHS = 5
local FIRST_DELAY_MS = 500
local LONG_LIFE_MS = 60000 -- who lives so long has not died of what the one before did
M.INSTALL = 'install it with `pipx install ".[cpu,syntax]"` in its own folder, or name it in '
  .. "setup({ cmd = { '/path/to/tabahead', '--stdio' } })"

---@type tabahead.Display
local display
---@type integer|nil
local client_id
local num_deaths, started_at = 0, 0
local has_complained = false
---@type table<integer, string> languages as the server was told them, by buffer
local languages = {}
--- Buffers that are listened to: whether Neovim has stopped telling servers of their changes.
---@type table<integer, boolean>
local is_untold = {}
--- Whether completions are paused; a server that is started meanwhile is told.
M.is_paused = false

---@param message string
---@param level integer|nil
function M.notify(message, level)
  vim.notify('tabahead: ' .. message, level or vim.log.levels.INFO, { title = 'tabahead' })
end

---@return vim.lsp.Client|nil client ready for requests
function M.client()
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  if client and client.initialized then
    return client
  end
end

--- The command that starts the server, and where its program is; nil where there is none.
---@return string[] cmd
---@return string|nil program
function M.command()
  local cmd = config.options.cmd or { 'tabahead', '--stdio' }
  local program = vim.fn.exepath(vim.fn.expand(cmd[1]))
  if program == '' and not config.options.cmd then
    program = vim.fn.exepath(vim.fn.expand('~/.local/bin/tabahead')) -- pipx and uv put it there
  end
  if program == '' then
    return cmd, nil
  end
  return vim.list_extend({ program }, cmd, 2), program
end

--- The command without what makes it serve, for its other verbs.
---@param ... string
---@return string[]
function M.verb(...)
  local verb = {}
  for _, argument in ipairs((M.command())) do
    if argument == '--stdio' then
      break
    end
    verb[#verb + 1] = argument
  end
  return vim.list_extend(verb, { ... })
end

--- The workspace is never on the import path, however Python is called: there an empty or relative
--- entry, as a colon too many makes one, stands for the current folder.
---@return table<string, string>
function M.environment()
  local separator = vim.fn.has('win32') == 1 and ';' or ':'
  local entries = vim.split(vim.env.PYTHONPATH or '', separator, { plain = true })
  local kept = vim.tbl_filter(function(entry)
    return entry:match('^[/\\]') ~= nil or entry:match('^%a:[/\\]') ~= nil
  end, entries)
  return { PYTHONSAFEPATH = '1', PYTHONPATH = table.concat(kept, separator) }
end

local function settings()
  local given = config.options.settings
  return { tabahead = next(given) and given or vim.empty_dict() }
end

local function capabilities()
  local known = vim.lsp.protocol.make_client_capabilities()
  known.textDocument.inlineCompletion = { dynamicRegistration = false }
  return known
end

---@param code integer
---@param signal integer
---@param id integer
local function on_exit(code, signal, id)
  if id ~= client_id or vim.v.exiting ~= vim.NIL then
    return -- it was told to
  end
  client_id, languages = nil, {}
  num_deaths = vim.uv.now() - started_at < LONG_LIFE_MS and num_deaths + 1 or 1
  local how = signal ~= 0 and ('by signal ' .. signal) or ('with exit code ' .. code)
  if num_deaths >= MAX_DEATHS then
    local message = ('the server ended %d times, last %s; '):format(num_deaths, how)
      .. '`:checkhealth tabahead` looks for the cause, `:Tabahead restart` tries again'
    status.set({ kind = 'error', message = message })
    M.notify(message, vim.log.levels.ERROR)
    return
  end
  local delay = FIRST_DELAY_MS * 2 ^ (num_deaths - 1)
  status.set({ kind = 'busy', message = ('The server ended %s; starting it again.'):format(how) })
  vim.defer_fn(M.attach_all, delay)
end

---@param bufnr integer
---@return string|nil
local function root_of(bufnr)
  return vim.fs.root(bufnr, config.options.root_markers)
end

--- The server's settings files and ignore files are those of its folders.
---@param client vim.lsp.Client
---@param bufnr integer
local function add_folder(client, bufnr)
  local root = root_of(bufnr)
  local folders = client.workspace_folders or {}
  local function is_root(folder)
    return folder.name == root
  end
  if root and not vim.iter(folders):any(is_root) then
    local folder = { uri = vim.uri_from_fname(root), name = root }
    client.workspace_folders = vim.list_extend({ folder }, folders)
    local event = { added = { folder }, removed = {} }
    compat.call(client, 'notify', 'workspace/didChangeWorkspaceFolders', { event = event })
  end
end

---@param client vim.lsp.Client
---@param command string
---@param arguments any[]|nil
local function send_command(client, command, arguments)
  local params = { command = command, arguments = arguments }
  compat.call(client, 'request', 'workspace/executeCommand', params, function(err)
    if err then
      M.notify(err.message, vim.log.levels.ERROR)
    end
  end)
end

---@param root string|nil
---@return vim.lsp.ClientConfig
local function client_config(root)
  local cmd = M.command()
  return {
    name = NAME,
    cmd = function(dispatchers)
      return display.start(cmd, dispatchers, { env = M.environment() })
    end,
    root_dir = root,
    capabilities = capabilities(),
    init_options = { status = true },
    settings = settings(),
    handlers = {
      ['tabahead/status'] = function(_, params)
        status.set(params)
      end,
      ['window/showMessage'] = function(_, params)
        M.notify(params.message, LEVELS[params.type])
      end,
    },
    on_init = function(client, result)
      status.version = vim.tbl_get(result, 'serverInfo', 'version')
      if M.is_paused then
        send_command(client, 'tabahead.pause')
      end
    end,
    on_attach = function(client, bufnr)
      display.attach(client, bufnr)
      add_folder(client, bufnr)
    end,
    on_exit = vim.schedule_wrap(on_exit),
  }
end

--- Why the server is not told of a buffer, in words; nil where it is.
---@param bufnr integer
---@return string|nil
function M.refusal(bufnr)
  if vim.bo[bufnr].buftype ~= '' then
    return 'this is no file but a window of Neovim or of a plugin'
  elseif vim.api.nvim_buf_get_name(bufnr) == '' then
    return 'this buffer has no name yet; completions begin once it is written to a file'
  end
end

--- Where a buffer is changed while no server has it, as between two lives of ours, Neovim stops
--- telling of its changes for good, and does not notice when the next one comes.
---@param bufnr integer
local function listen(bufnr)
  if is_untold[bufnr] ~= nil then
    return
  end
  is_untold[bufnr] = false
  vim.api.nvim_buf_attach(bufnr, false, {
    on_lines = function(_, _, tick)
      -- Neovim's own listener came first, and has noted the version where it tells.
      is_untold[bufnr] = vim.lsp.util.buf_versions[bufnr] ~= tick
    end,
    on_reload = function() end, -- without it, this would be the end
    on_detach = function()
      is_untold[bufnr] = nil
    end,
  })
end

--- Tell the server all of a buffer whose changes it does not hear of.
---@param client vim.lsp.Client
---@param bufnr integer
function M.tell_text(client, bufnr)
  if not is_untold[bufnr] then
    return
  end
  local ending = ({ dos = '\r\n', mac = '\r' })[vim.bo[bufnr].fileformat] or '\n'
  local text = table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), ending)
  compat.call(client, 'notify', 'textDocument/didChange', {
    textDocument = {
      uri = vim.uri_from_bufnr(bufnr),
      version = vim.api.nvim_buf_get_changedtick(bufnr),
    },
    contentChanges = { { text = vim.bo[bufnr].endofline and text .. ending or text } },
  })
end

---@param bufnr integer
function M.attach(bufnr)
  if not vim.api.nvim_buf_is_loaded(bufnr) or M.refusal(bufnr) or num_deaths >= MAX_DEATHS then
    return
  end
  local cmd, program = M.command()
  if not program then
    if not has_complained then
      has_complained = true
      local message = ('the server `%s` was not found; %s'):format(cmd[1], M.INSTALL)
      status.set({ kind = 'error', message = message })
      M.notify(message, vim.log.levels.ERROR)
    end
    return
  end
  local language = vim.bo[bufnr].filetype
  if client_id and languages[bufnr] and languages[bufnr] ~= language then
    vim.lsp.buf_detach_client(bufnr, client_id) -- it is opened anew, as what it is now
  end
  languages[bufnr] = language
  if client_id then
    vim.lsp.buf_attach_client(bufnr, client_id)
  else
    started_at = vim.uv.now()
    client_id = vim.lsp.start(client_config(root_of(bufnr)), {
      bufnr = bufnr,
      reuse_client = function()
        return false
      end,
    })
    if not client_id then
      num_deaths = MAX_DEATHS -- Neovim has said why; restart() tries again
    end
  end
  listen(bufnr)
end

--- The name of a buffer is about to change: it is closed under the old one, since Neovim would go
--- on under the new one without opening that.
---@param bufnr integer
function M.rename(bufnr)
  local client = M.client()
  if client and vim.lsp.buf_is_attached(bufnr, client.id) then
    vim.lsp.buf_detach_client(bufnr, client.id)
    languages[bufnr] = nil
  end
end

function M.attach_all()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    if vim.bo[bufnr].buflisted then
      M.attach(bufnr)
    end
  end
end

--- Stop the server, if it runs, and start it for all buffers.
function M.restart()
  num_deaths, has_complained = 0, false
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  client_id, languages = nil, {}
  if client then
    compat.call(client, 'stop', true)
  end
  M.attach_all()
end

--- Hand over the settings as they are in config.options now.
function M.configure()
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  if not client then
    return
  end
  client.settings = settings()
  if client.initialized then -- else it is told them when it is
    local params = { settings = client.settings }
    compat.call(client, 'notify', 'workspace/didChangeConfiguration', params)
  end
end

---@param command string
---@param arguments any[]|nil
function M.execute(command, arguments)
  local client = M.client()
  if not client then
    return M.notify('the server does not run; `:checkhealth tabahead` says why')
  end
  send_command(client, command, arguments)
end

---@param use tabahead.Display
function M.use(use)
  display = use
end

return M
