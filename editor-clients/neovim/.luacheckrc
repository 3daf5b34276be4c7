-- Neovim's Lua: LuaJIT, and the global `vim`, whose options are set by assignment.
std = 'luajit'
globals = { 'vim' }
max_line_length = 100
