--- What `tabahead stats` prints, in a window of its own.
local server = require('tabahead.server')

local M = {}

---@param text string
local function open(text)
  vim.cmd.new()
  vim.bo.buftype, vim.bo.bufhidden, vim.bo.swapfile = 'nofile', 'wipe', false
  vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(vim.trim(text), '\n'))
  vim.bo.modifiable = false
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = true, desc = 'close' })
end

function M.show()
  local cmd, program = server.command()
  if not program then
    local message = ('the server `%s` was not found; %s'):format(cmd[1], server.INSTALL)
    return server.notify(message, vim.log.levels.ERROR)
  end
  local options = { text = true, env = server.environment() }
  vim.system(
    server.verb('stats'),
    options,
    vim.schedule_wrap(function(done)
      if done.code ~= 0 then
        return server.notify(vim.trim(done.stderr), vim.log.levels.ERROR)
      end
      open(done.stdout)
    end)
  )
end

return M
