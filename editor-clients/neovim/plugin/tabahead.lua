-- Loaded by Neovim at start-up: the command and the colours. Nothing else runs before setup().
if vim.g.loaded_tabahead then
  return
end
vim.g.loaded_tabahead = true

if vim.fn.has('nvim-0.10') == 0 then
  vim.notify('tabahead needs Neovim 0.10 or later; update Neovim.', vim.log.levels.ERROR)
  return
end

vim.api.nvim_set_hl(0, 'TabaheadGhost', { link = 'ComplHint', default = true })
vim.api.nvim_set_hl(0, 'TabaheadGhostMore', { link = 'ComplHintMore', default = true })
if vim.fn.has('nvim-0.12') == 0 then -- which has these two of its own
  vim.api.nvim_set_hl(0, 'ComplHint', { link = 'NonText', default = true })
  vim.api.nvim_set_hl(0, 'ComplHintMore', { link = 'MoreMsg', default = true })
end

vim.api.nvim_create_user_command('Tabahead', function(command)
  require('tabahead.command').run(command.fargs)
end, {
  nargs = '*',
  complete = function(_, line)
    return require('tabahead.command').complete(line)
  end,
  desc = 'tabahead: completions by a model on this machine',
})
