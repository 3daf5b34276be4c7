-- Neovim as the tests start it: the plugin as a native package, and what `options` in the JSON of
-- TABAHEAD_TEST says.
local given = vim.json.decode(vim.env.TABAHEAD_TEST, { luanil = { object = true } })

_G.notices = {}
vim.notify = function(message)
  table.insert(_G.notices, message)
end

if given.encodings then
  local make = vim.lsp.protocol.make_client_capabilities
  vim.lsp.protocol.make_client_capabilities = function()
    local capabilities = make()
    capabilities.general.positionEncodings = given.encodings
    return capabilities
  end
end

vim.g.loaded_python3_provider = 0 -- it would be looked for at the first Python file, for seconds
vim.o.swapfile = false
vim.o.laststatus = 0
vim.o.ruler = false
vim.o.showmode = false
vim.o.termguicolors = true
vim.o.completeopt = 'menuone,noinsert'

for _, command in ipairs(given.before or {}) do
  vim.cmd(command)
end
vim.cmd.packadd('tabahead')
if given.options then
  require('tabahead').setup(given.options)
end
