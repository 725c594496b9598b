-- What processes that share an account take and tell in one step. All keys have one hash tag.
--
-- KEYS  1 processes that are alive, by expiry           2 those that wait, by when they began to   3 the same, by expiry
--       then for each scope (the account, its model if that has limits, the lane, which is always the last) two:
--       a hash, and a sorted set of what is in flight, by expiry
-- ARGV  1 process   2 horizon   3 starts wanted   4, 5 tokens for each (input, output)   6, 7 tokens to charge besides
--       8 starts of the day to give back   9 pause   10, 11 version and text of the rate   12, 13 of the ceiling
--       14-20 breaker: version, open, time left, lasted, how long a probe is waited for, whether it is silent then, and
--       whether this process keeps to it   21-23 failures in a row that are new: their number, that of their calls, and since
--       when   24 since when the last success was sent
--       25 first number for a place in flight   26 n and n places given up   then n and n places still held
--       then for each scope: time between starts, the same for an input token, most input tokens, the same two for output,
--       starts a day, most in flight
-- Times are microseconds; those that go in and out are from now on, those that are kept are the server's. Zero is no limit.
-- Everything is read, and so refused if a key is of another type, before anything is written.

local DAY, LIVE, HELD, FAR = 86400e6, 15e6, 10e6, 3600e6
-- a probe whose process says nothing of it is taken for dead so long after it should have, and a row of failures is over if
-- none was added for so long
local DEAD, FADES = 1e6, 10e6
local at = 0
local function arg() at = at + 1; return ARGV[at] end
local function num() return tonumber(arg()) or 0 end

local process, horizon = arg(), num()
local wanted, each_in, each_out, charge_in, charge_out, unused = num(), num(), num(), num(), num(), num()
local pause = math.min(num(), 24 * FAR)
local rate_version, rate = num(), arg()
local ceiling_version, ceiling = num(), num()
local breaker_version, open, open_for, lasted, patience, silent, holds = num(), num(), num(), num(), num(), num(), num()
local failures, calls, row_for, success_ago = num(), num(), num(), num()
local place = num()
local function list() local l = {}; for i = 1, num() do l[i] = process .. ':' .. arg() end; return l end
local given_up, held = list(), list()

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- read
local live, waiting, waiting_until = KEYS[1], KEYS[2], KEYS[3]
local alive = redis.call('ZCOUNT', live, '(' .. string.format('%.0f', now), '(' .. string.format('%.0f', now + LIVE + 1e6))
if not redis.call('ZSCORE', live, process) then alive = alive + 1 end
local scopes, stepped = {}, false
for k = 4, #KEYS, 2 do
  local s = { key = KEYS[k], places = KEYS[k + 1],
    gap = num(), gap_in = num(), most_in = num(), gap_out = num(), most_out = num(), day = num(), most = num() }
  local v = redis.call('HMGET', s.key, 'now', 'next', 'gap', 'in', 'out', 'day', 'since',
    'pause', 'rv', 'rate', 'cv', 'ceiling', 'bv', 'open', 'until', 'lasted',
    'patience', 'silent', 'failures', 'calls', 'began', 'failed', 'succeeded')
  local n = {}
  for i = 1, 23 do n[i] = tonumber(v[i]) or 0 end
  -- the server's clock was put back: all that is kept goes back with it
  local back = n[1] - now > 1e6 and n[1] - now or 0
  stepped = stepped or back > 0
  local function kept(t) return t > 0 and t - back or 0 end
  s.next, s.was, s.input, s.output = kept(n[2]), n[3], kept(n[4]), kept(n[5])
  s.counted, s.since = n[6], kept(n[7])
  s.pause, s.rv, s.rate = kept(n[8]), n[9], v[10] or ''
  s.cv, s.ceiling = n[11], n[12]
  s.bv, s.open, s.till, s.lasted, s.patience, s.silent = n[13], n[14], kept(n[15]), n[16], n[17], n[18]
  s.failures, s.calls, s.began, s.failed, s.succeeded = n[19], n[20], kept(n[21]), kept(n[22]), kept(n[23])
  redis.call('ZCARD', s.places)
  scopes[#scopes + 1] = s
end
local lane = scopes[#scopes]
local ahead = redis.call('ZCARD', waiting)
redis.call('ZCARD', waiting_until)

-- what is known: the newer version of each counts, and a pause is never moved earlier
if pause > 0 and now + pause > lane.pause + 50000 then lane.pause = now + pause end
if rate_version > lane.rv then lane.rv, lane.rate = rate_version, rate end
if ceiling_version > lane.cv then lane.cv, lane.ceiling = ceiling_version, ceiling end
-- a process that has heard of an open circuit and does not keep to it knows better: its own sends get through
local function forget_row() lane.failures, lane.calls, lane.began, lane.failed = 0, 0, 0, 0 end
local heard = breaker_version >= lane.bv
if breaker_version > lane.bv then
  lane.bv, lane.open, lane.till, lane.lasted = breaker_version, open, now + open_for, lasted
  lane.patience, lane.silent = patience, silent
  forget_row()
end
local gated = lane.open == 1 and (holds == 1 or not heard)
if success_ago > 0 then lane.succeeded = math.max(lane.succeeded, now - success_ago) end
if now - lane.failed > FADES or lane.succeeded > lane.began then forget_row() end
if failures > 0 and lane.open == 0 then
  local began = math.max(now - row_for, lane.succeeded)
  lane.began = lane.began > 0 and math.min(lane.began, began) or began
  lane.failures, lane.calls, lane.failed = lane.failures + failures, lane.calls + calls, now
end
if lane.pause - now > 24 * FAR + 60e6 then lane.pause = 0 end
if lane.till - now > FAR then lane.till = now end
if lane.ceiling > 0 and (lane.most == 0 or lane.ceiling < lane.most) then lane.most = lane.ceiling end

-- writes begin here
local function zadd(key, score, member) redis.call('ZADD', key, string.format('%.0f', score), member) end
local function prune(key, longest)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
  redis.call('ZREMRANGEBYSCORE', key, string.format('%.0f', now + longest + 1e6), '+inf')
end
-- the first of all, since it is the one that is refused, and the script with it, where there is no memory left
zadd(live, now + LIVE, process)
prune(live, LIVE)
redis.call('PEXPIRE', live, 60000)
if stepped then redis.call('DEL', waiting, waiting_until); ahead = 0 end
if ahead > 0 then
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', waiting_until, '-inf', string.format('%.0f', now))) do
    redis.call('ZREM', waiting, gone)
    redis.call('ZREM', waiting_until, gone)
  end
  ahead = redis.call('ZRANK', waiting, process) or redis.call('ZCARD', waiting)
end
-- one probes for all, whoever waits longest
if gated then ahead = 0 end
local was_waiting = redis.call('ZSCORE', waiting, process)

local room, flight = wanted, 0
for _, s in ipairs(scopes) do
  if s.most > 0 then
    for _, member in ipairs(given_up) do redis.call('ZREM', s.places, member) end
    for _, member in ipairs(held) do zadd(s.places, now + HELD, member) end
    prune(s.places, HELD)
    local taken = redis.call('ZCARD', s.places)
    room = math.min(room, s.most - taken - ahead)
    if s == lane then flight = taken end
  end
  if s.day > 0 then
    if s.since == 0 or now >= s.since + DAY then s.since, s.counted = now, 0 end
    s.counted = math.max(0, s.counted - unused)
    room = math.min(room, s.day - s.counted)
  end
  -- a rate that is another moves what is to come with it
  if s.gap > 0 then
    if s.next - now > horizon + 2 * math.max(s.gap, s.was) then s.next = now end
    if s.was > 0 and s.was ~= s.gap and s.next > now then s.next = now + (s.next - now) * s.gap / s.was end
    s.next = math.max(s.next, now)
  end
  local function full(t, gap, most)
    if t - now > FAR then t = now end
    return math.max(t, now - most * gap)
  end
  if s.gap_in > 0 then s.input = full(s.input, s.gap_in, s.most_in) end
  if s.gap_out > 0 then s.output = full(s.output, s.gap_out, s.most_out) end
end

-- when it is worth to ask again, if not all that is wanted can be had
local again, probe = 0, 0
if wanted > 0 and room < 1 then
  again = 50000
  for _, s in ipairs(scopes) do
    if s.day > 0 and s.counted >= s.day then again = math.max(again, s.since + DAY - now) end
  end
end
if lane.pause > now then room, again = 0, math.max(again, lane.pause - now) end
if gated then
  if lane.till > now then
    room, again = 0, math.max(again, lane.till - now)
  elseif room > 0 then
    room = 1
  end
end

local dues = {}
while #dues < room do
  local due, gap = now, 0
  for _, s in ipairs(scopes) do
    if s.gap > 0 then due, gap = math.max(due, s.next), math.max(gap, s.gap) end
    if s.gap_in > 0 then due = math.max(due, s.input + math.min(each_in, s.most_in) * s.gap_in) end
    if s.gap_out > 0 then due = math.max(due, s.output + math.min(each_out, s.most_out) * s.gap_out) end
  end
  local far = due + ahead * gap - now - horizon
  if far > 0 then again = far; break end
  for _, s in ipairs(scopes) do
    if s.gap > 0 then s.next = s.next + s.gap end
    s.input, s.output = s.input + each_in * s.gap_in, s.output + each_out * s.gap_out
    if s.day > 0 then s.counted = s.counted + 1 end
    if s.most > 0 then zadd(s.places, now + HELD, process .. ':' .. string.format('%.0f', place)) end
  end
  place = place + 1
  dues[#dues + 1] = string.format('%.0f', due - now)
end
if #dues > 0 then
  if was_waiting then
    redis.call('ZREM', waiting, process)
    redis.call('ZREM', waiting_until, process)
  end
  if gated then
    probe, lane.bv, lane.till = 1, lane.bv + 1, now + math.min(math.max(patience, lane.patience), FAR) + DEAD
  end
elseif wanted > 0 and again > 0 and not gated then
  redis.call('ZADD', waiting, 'NX', string.format('%.0f', now), process)
  zadd(waiting_until, now + again + 500000, process)
  redis.call('PEXPIRE', waiting, 86400000)
  redis.call('PEXPIRE', waiting_until, 86400000)
elseif wanted == 0 and was_waiting then
  redis.call('ZREM', waiting, process)
  redis.call('ZREM', waiting_until, process)
end

-- processes in which calls are held
local held_in = 0
if gated then
  redis.call('ZREMRANGEBYSCORE', waiting_until, '-inf', string.format('%.0f', now))
  if wanted > 0 then
    zadd(waiting_until, now + again + 500000, process)
    redis.call('PEXPIRE', waiting_until, 86400000)
  else
    redis.call('ZREM', waiting_until, process)
  end
  held_in = redis.call('ZCARD', waiting_until)
end

-- tokens without a start: more for a heavy one, or what was not used
local token_due = now
for _, s in ipairs(scopes) do
  if s.gap_in > 0 and charge_in ~= 0 then
    if charge_in > 0 then token_due = math.max(token_due, s.input + math.min(charge_in, s.most_in) * s.gap_in) end
    s.input = math.max(s.input + charge_in * s.gap_in, now - s.most_in * s.gap_in)
  end
  if s.gap_out > 0 and charge_out ~= 0 then
    if charge_out > 0 then token_due = math.max(token_due, s.output + math.min(charge_out, s.most_out) * s.gap_out) end
    s.output = math.max(s.output + charge_out * s.gap_out, now - s.most_out * s.gap_out)
  end
end

local function text(n) return string.format('%.0f', n) end
for _, s in ipairs(scopes) do
  local fields = { 'now', text(now) }
  local function set(name, value) fields[#fields + 1] = name; fields[#fields + 1] = value end
  if s.gap > 0 then set('next', text(s.next)); set('gap', text(s.gap)) end
  if s.gap_in > 0 then set('in', text(s.input)) end
  if s.gap_out > 0 then set('out', text(s.output)) end
  if s.day > 0 then set('day', text(s.counted)); set('since', text(s.since)) end
  if s == lane then
    set('pause', text(s.pause)); set('rv', text(s.rv)); set('rate', s.rate); set('cv', text(s.cv)); set('ceiling', text(s.ceiling))
    set('bv', text(s.bv)); set('open', text(s.open)); set('until', text(s.till)); set('lasted', text(s.lasted))
    set('patience', text(s.patience)); set('silent', text(s.silent))
    set('failures', text(s.failures)); set('calls', text(s.calls)); set('began', text(s.began)); set('failed', text(s.failed))
    set('succeeded', text(s.succeeded))
  end
  redis.call('HSET', s.key, unpack(fields))
  redis.call('PEXPIRE', s.key, s.day > 0 and 90000000 or math.max(3600000, math.ceil((lane.pause - now) / 1000)))
  if s.most > 0 then redis.call('PEXPIRE', s.places, 60000) end
end

return table.concat({ text(now), text(alive), text(again), text(probe), text(token_due - now),
  text(math.max(0, lane.pause - now)), text(lane.rv), lane.rate == '' and '-' or lane.rate, text(lane.cv), text(lane.ceiling),
  text(lane.bv), text(lane.open), text(math.max(0, lane.till - now)), text(lane.lasted),
  text(lane.patience), text(lane.silent), text(lane.failures), text(lane.calls),
  text(lane.began > 0 and math.max(0, now - lane.began) or 0), text(held_in), text(flight),
  table.concat(dues, ',') }, ' ')
