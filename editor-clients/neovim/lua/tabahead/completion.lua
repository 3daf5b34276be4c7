--- Ghost text from the question to the acceptance: asks at each change in insert mode, keeps the
--- answer while it is typed through, puts it into the buffer. How it looks is the display's.
local compat = require('tabahead.compat')
local insert = require('tabahead.insert')
local offer = require('tabahead.offer')
local parts = require('tabahead.parts')
local server = require('tabahead.server')

local M = {}

local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2
local REPORT_PART = 'tabahead.didPartiallyAcceptCompletionItem'

---@type tabahead.Display
local display

---@type tabahead.Item[]
local items = {}
local index = 1
---@type tabahead.Place|nil the place that was asked about last
local asked
---@type integer|nil the request that is under way
local request
local is_due = false

--- What is left of each item at the cursor, and which of them is chosen; nil where nothing fits.
---@return tabahead.Insertion[]|nil
---@return integer|nil
local function fitting()
  local place = offer.here()
  if not asked or asked.bufnr ~= place.bufnr or not display.is_on(place.bufnr) then
    return nil
  end
  local left, chosen = {}, 1
  for number, item in ipairs(items) do
    local insertion = offer.left_of(item, place)
    if insertion then
      left[#left + 1] = insertion
      chosen = number == index and #left or chosen
    end
  end
  if #left > 0 then
    return left, chosen
  end
end

---@return boolean
local function is_inserting()
  return vim.startswith(vim.api.nvim_get_mode().mode, 'i')
end

local function redraw()
  local left, chosen = fitting()
  if left and is_inserting() then
    display.show(asked.bufnr, left, chosen)
  elseif asked then
    display.hide(asked.bufnr)
  end
end

local function cancel()
  local client = server.client()
  if request and client then
    compat.call(client, 'cancel_request', request)
  end
  request = nil
end

--- Forget what is offered and asked for.
function M.drop()
  cancel()
  items, index = {}, 1
  redraw()
end

--- Insert mode was left, or the buffer: what was asked there is asked again on coming back.
function M.stop()
  M.drop()
  asked = nil
end

---@param place tabahead.Place
---@return boolean
local function is_asked(place)
  return asked ~= nil
    and asked.bufnr == place.bufnr
    and asked.tick == place.tick
    and asked.row == place.row
    and asked.col == place.col
end

---@param bufnr integer
---@return vim.lsp.Client|nil
local function client_of(bufnr)
  local client = server.client()
  if client and vim.b[bufnr].tabahead ~= false and vim.lsp.buf_is_attached(bufnr, client.id) then
    return client
  end
end

--- Ask about the cursor; a request that is under way is overtaken.
---@param kind 1|2
---@param answered fun()|nil called once an answer has come that has not been overtaken
local function ask(kind, answered)
  local place = offer.here()
  local client = client_of(place.bufnr)
  if not client then
    return M.drop()
  end
  cancel()
  asked = place
  local encoding = client.offset_encoding
  -- Not by vim.lsp.util: 0.10 miscounts behind characters of several bytes.
  local character = compat.num_units(place.line:sub(1, place.col), encoding)
  local params = {
    textDocument = vim.lsp.util.make_text_document_params(place.bufnr),
    position = { line = place.row, character = character },
    context = { triggerKind = kind },
    formattingOptions = vim.lsp.util.make_formatting_params().options,
  }
  local function handle(err, result)
    if asked ~= place then
      return
    elseif err then
      vim.notify_once('tabahead: ' .. err.message, vim.log.levels.ERROR)
    end
    request = nil
    if result then
      items, index = offer.items(place, result, encoding), 1
    end
    if answered then
      answered()
    end
    redraw()
  end
  server.tell_text(client, place.bufnr)
  display.asking(function()
    local _, id = compat.call(client, 'request', METHOD, params, handle, place.bufnr)
    request = id
  end)
end

--- The text or the cursor has changed: what still fits stays, and the server is asked once Neovim
--- has worked off its keys.
function M.follow()
  redraw()
  if is_due then
    return
  end
  is_due = true
  vim.schedule(function()
    is_due = false
    redraw()
    if is_inserting() and not is_asked(offer.here()) then
      ask(AUTOMATIC)
    end
  end)
end

--- What was asked may be answered otherwise by now: there is a model, or no pause any more.
function M.ask_again()
  if #items == 0 then
    asked = nil
    M.follow()
  end
end

---@param insertion tabahead.Insertion
---@param text string
local function report(insertion, text)
  local item = insertion.item
  if not item.command or not server.client() then
    return
  end
  local is_whole = text == insertion.text
  local taken = item.text:sub(1, insertion.num_typed + #text)
  local length = compat.num_units(taken, item.encoding)
  local id = item.command.arguments[1]
  server.execute(
    is_whole and item.command.command or REPORT_PART,
    is_whole and item.command.arguments or { id, length }
  )
end

--- Put what is shown into the buffer.
---@param part 'word'|'line'|nil so much of it; nil: all
---@return boolean done false: nothing is shown
function M.accept(part)
  local left, chosen = fitting()
  if not left or not is_inserting() then
    return false
  end
  if vim.api.nvim_get_mode().mode == 'ic' then
    -- Neovim's completion is at work, and would put back what it knows of the line: it ends first,
    -- with the text as it is.
    local again = part and ('accept(%q)'):format(part) or 'accept()'
    local command = "<C-x><C-z><Cmd>lua require('tabahead.completion')." .. again .. '<CR>'
    vim.api.nvim_feedkeys(vim.keycode(command), 'in', false)
    return true
  end
  local insertion = left[chosen]
  local text = part and parts[part](insertion.text) or insertion.text
  local is_whole = text == insertion.text
  local end_col = is_whole and insertion.end_col or insertion.col
  insert.replace(insertion.row, insertion.start_col, end_col, text)
  report(insertion, text)
  if is_whole then
    M.drop()
  end
  redraw()
  return true
end

--- Whether accept() would insert something.
---@return boolean
function M.is_shown()
  return is_inserting() and fitting() ~= nil
end

--- Ask as by key: everything that the server has to say, also where it would be silent.
---@param answered fun()|nil
function M.trigger(answered)
  local explain = require('tabahead.explain').run
  if not client_of(vim.api.nvim_get_current_buf()) then
    return explain()
  end
  ask(INVOKED, answered or function()
    if #items == 0 then
      explain()
    end
  end)
end

--- Show another of the items; the further ones are asked for where there is only one.
---@param step integer
function M.select(step)
  local left, chosen = fitting()
  if left and #left > 1 then
    local other = left[(chosen - 1 + step) % #left + 1].item
    while items[index] ~= other do -- some of the items no longer fit
      index = index % #items + 1
    end
    redraw()
  elseif M.is_shown() then
    M.trigger(function()
      index = (index - 1 + step) % math.max(#items, 1) + 1
    end)
  end
end

---@param chosen tabahead.Display
function M.use(chosen)
  display = chosen
end

return M
