-- A Wireshark dissector for the hostwire protocol, version 2 (docs/protocol.md).
--
-- wireshark -X lua_script:hostwire.lua -d tcp.port==PORT,hostwire
-- tshark    -X lua_script:hostwire.lua -d tcp.port==PORT,hostwire -r FILE -V
--
-- The port is in the connection file. Messages of the handshake are named, and their nonces and proofs are never spelled out.

local hostwire = Proto("hostwire", "hostwire")

local TYPES = {
    [0] = "Request", "Response", "Push", "StreamData", "StreamEnd", "Error",
    "Cancel", "Ping", "Pong", "Hello", "HelloAck", "Goodbye",
}
local PRIORITIES = { [0] = "Passive", "Interactive", "Background", "invalid" }
local ADMISSIONS = { [0] = "Normal", "Expedite", "Sheddable", "invalid" }
-- Frames that are a header and nothing else (W3).
local PURE = { [6] = true, [7] = true, [8] = true, [11] = true }
local HEADER = 21
local MAX_BODY = 67108864
local MAX_MESSAGE = 4096

local f = {
    message = ProtoField.string("hostwire.message", "Handshake message"),
    length = ProtoField.uint32("hostwire.message_length", "Length of the message"),
    len = ProtoField.uint32("hostwire.len", "Length of the body"),
    ver = ProtoField.uint8("hostwire.ver", "Version"),
    type = ProtoField.uint8("hostwire.type", "Type", base.DEC, TYPES),
    flags = ProtoField.uint8("hostwire.flags", "Flags", base.HEX),
    binary = ProtoField.bool("hostwire.flags.binary", "Binary body", 8, nil, 0x01),
    priority = ProtoField.uint8("hostwire.flags.priority", "Priority", base.DEC, PRIORITIES, 0x06),
    last = ProtoField.bool("hostwire.flags.last", "Last", 8, nil, 0x08),
    admission = ProtoField.uint8("hostwire.flags.admission", "Admission class", base.DEC, ADMISSIONS, 0x30),
    channel = ProtoField.uint16("hostwire.channel", "Channel"),
    epoch = ProtoField.uint32("hostwire.epoch", "Epoch"),
    corr = ProtoField.uint64("hostwire.corr", "Correlation"),
    body = ProtoField.bytes("hostwire.body", "Body"),
    op = ProtoField.string("hostwire.op", "Operation"),
    code = ProtoField.string("hostwire.code", "Error code"),
    reason = ProtoField.string("hostwire.reason", "Why it is malformed"),
}
hostwire.fields = f

local malformed = ProtoExpert.new("hostwire.malformed", "Malformed frame", expert.group.MALFORMED, expert.severity.ERROR)
hostwire.experts = { malformed }

-- Per conversation: which port is the host's, and where each direction's envelopes begin. Found on the first pass, in order.
local conversations = {}

function hostwire.init()
    conversations = {}
end

local function key(pinfo)
    local a, b = tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
    return a < b and a .. "|" .. b or b .. "|" .. a
end

-- The state of the direction that this packet goes in.
local function direction(pinfo)
    local id = key(pinfo)
    local there = conversations[id]
    if not there then
        -- Whoever speaks first is the client (section 5).
        there = { client = tostring(pinfo.src) .. ":" .. pinfo.src_port, left = { client = 2, host = 1 }, seen = {} }
        conversations[id] = there
    end
    local from = tostring(pinfo.src) .. ":" .. pinfo.src_port
    return there, from == there.client and "client" or "host"
end

-- Which handshake messages stand in a packet is known from the first pass, and asked for again on later ones.
local function messages_before(there, side, pinfo)
    local at = there.seen[pinfo.number] or {}
    there.seen[pinfo.number] = at
    if at[side] == nil then
        at[side] = there.left[side]
    end
    return at[side]
end

-- The first check of W9 that fails, or nil.
local function judge(len, ver, kind, flags, channel, epoch)
    if ver ~= 2 then return "unsupported version (W2)" end
    if kind > 11 then return "unknown type (W2)" end
    if bit.band(flags, 0xc0) ~= 0 then return "reserved flag bits (W2)" end
    if bit.band(bit.rshift(flags, 1), 3) == 3 then return "invalid priority (W2)" end
    local admission = bit.band(bit.rshift(flags, 4), 3)
    if admission == 3 then return "invalid admission class (W2)" end
    if admission == 2 and kind ~= 2 and kind ~= 3 then return "Sheddable on a frame that must not be shed (W4)" end
    if PURE[kind] and (bit.band(flags, 0x09) ~= 0 or admission ~= 0) then return "flags on a pure header (W3)" end
    if PURE[kind] and len ~= 0 then return "body on a pure header (W2)" end
    if len > MAX_BODY then return "body over 64 MiB (W2)" end
    if channel == 0 and epoch ~= 0 then return "epoch on the control channel (W2)" end
    if channel ~= 0 and epoch == 0 then return "no epoch on a route (W2)" end
    if kind == 9 or kind == 10 then return "nobody sends this type (F1)" end
    return nil
end

-- What the sender may not send (F1).
local function legal(side, kind)
    if side == "client" then
        return kind == 0 or kind == 6 or kind == 8 or kind == 11
    end
    return kind == 1 or kind == 2 or kind == 3 or kind == 4 or kind == 5 or kind == 7 or kind == 11
end

-- A member of a JSON object whose value is a string, without an escape in it.
local function member(text, name)
    return text:match('"' .. name .. '"%s*:%s*"([^"\\]*)"')
end

local function flag(tree, reason)
    tree:add(f.reason, reason)
    tree:add_proto_expert_info(malformed, reason)
end

local function frame(buffer, pinfo, tree, side, told)
    local len, ver, kind = buffer(0, 4):le_uint(), buffer(4, 1):uint(), buffer(5, 1):uint()
    local flags, channel = buffer(6, 1):uint(), buffer(7, 2):le_uint()
    local epoch, corr = buffer(9, 4):le_uint(), buffer(13, 8):le_uint64()
    local name = TYPES[kind] or ("type " .. kind)
    local identity = channel .. "/" .. epoch .. "/" .. tostring(corr)
    local branch = tree:add(hostwire, buffer(0), name .. " " .. identity .. ", " .. len .. " bytes")
    branch:add_le(f.len, buffer(0, 4))
    branch:add(f.ver, buffer(4, 1))
    branch:add(f.type, buffer(5, 1))
    local bits = branch:add(f.flags, buffer(6, 1))
    bits:add(f.binary, buffer(6, 1))
    bits:add(f.priority, buffer(6, 1))
    bits:add(f.last, buffer(6, 1))
    bits:add(f.admission, buffer(6, 1))
    branch:add_le(f.channel, buffer(7, 2))
    branch:add_le(f.epoch, buffer(9, 4))
    branch:add_le(f.corr, buffer(13, 8))
    local reason = judge(len, ver, kind, flags, channel, epoch)
    if not reason and not legal(side, kind) then
        reason = "the " .. side .. " never sends this type (F1)"
    end
    if reason then
        flag(branch, reason)
        told[#told + 1] = "MALFORMED " .. name
        return
    end
    local about = ""
    if len > 0 and buffer:len() > HEADER then
        local body = buffer(HEADER)
        branch:add(f.body, body)
        if bit.band(flags, 1) == 0 then
            local text = body:string()
            if channel == 0 and (kind == 0 or kind == 1) then
                local op = member(text, "op")
                if op then
                    branch:add(f.op, op)
                    about = " " .. op
                elseif kind == 0 then
                    flag(branch, "a control request without an operation (C3)")
                end
            elseif kind == 5 then
                local code = member(text, "code")
                if code then
                    branch:add(f.code, code)
                    about = " " .. code
                else
                    flag(branch, "an error without a code (F7)")
                end
            end
        end
    end
    told[#told + 1] = name .. " " .. identity .. about
end

local NAMES = { client = { [2] = "client hello", [1] = "client proof" }, host = { [1] = "host challenge" } }

function hostwire.dissector(buffer, pinfo, tree)
    pinfo.cols.protocol = "hostwire"
    local there, side = direction(pinfo)
    local left = messages_before(there, side, pinfo)
    local at, told = 0, {}
    local more
    while at < buffer:len() do
        local rest = buffer:len() - at
        if left > 0 then
            if rest < 4 then
                more = DESEGMENT_ONE_MORE_SEGMENT
                break
            end
            local length = buffer(at, 4):le_uint()
            if length > MAX_MESSAGE then
                local branch = tree:add(hostwire, buffer(at), "handshake message of " .. length .. " bytes")
                flag(branch, "a handshake message over 4,096 bytes (A1)")
                told[#told + 1] = "MALFORMED handshake"
                at = buffer:len()
                break
            end
            if rest < 4 + length then
                more = 4 + length - rest
                break
            end
            local branch = tree:add(hostwire, buffer(at, 4 + length), NAMES[side][left])
            branch:add_le(f.length, buffer(at, 4))
            branch:add(f.message, NAMES[side][left])
            told[#told + 1] = NAMES[side][left]
            at, left = at + 4 + length, left - 1
        else
            if rest < 5 then
                more = DESEGMENT_ONE_MORE_SEGMENT
                break
            end
            -- W1: the version is judged before the rest of a header, which may never come.
            if buffer(at + 4, 1):uint() ~= 2 then
                local branch = tree:add(hostwire, buffer(at), "no frame")
                flag(branch, "unsupported version (W2)")
                told[#told + 1] = "MALFORMED"
                at = buffer:len()
                break
            end
            if rest < HEADER then
                more = HEADER - rest
                break
            end
            local len = buffer(at, 4):le_uint()
            local reason = len > MAX_BODY or PURE[buffer(at + 5, 1):uint()] and len > 0
            if reason then
                frame(buffer(at):tvb(), pinfo, tree, side, told)
                at = buffer:len()
                break
            end
            if rest < HEADER + len then
                more = HEADER + len - rest
                break
            end
            frame(buffer(at, HEADER + len):tvb(), pinfo, tree, side, told)
            at = at + HEADER + len
        end
    end
    if not pinfo.visited then
        there.left[side] = left
    end
    pinfo.cols.info = table.concat(told, "; ")
    if more then
        pinfo.desegment_offset = at
        pinfo.desegment_len = more
    end
    return buffer:len()
end

DissectorTable.get("tcp.port"):add_for_decode_as(hostwire)
