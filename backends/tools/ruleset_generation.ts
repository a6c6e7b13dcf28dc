/** The places of the C library, where Debian, Fedora, Arch and their relatives have it. */
export const C_LIBRARIES: readonly string[] = [
  "/lib/x86_64-linux-gnu/libc.so.6",
  "/lib/aarch64-linux-gnu/libc.so.6",
  "/lib64/libc.so.6",
  "/usr/lib/libc.so.6",
];

/**
 * Returns a number that changes with every change of the nf_tables ruleset of this network namespace, whoever made it;
 * undefined if the kernel does not answer. Packets that add elements to a set do not change it. A call takes microseconds.
 */
export type RulesetGeneration = () => number | undefined;

// include/uapi/linux/netlink.h and include/uapi/linux/netfilter/nf_tables.h
const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
const NETLINK_NETFILTER = 12;
const MSG_DONTWAIT = 0x40;
const NFT_MSG_GETGEN = (10 << 8) | 16;
const NFT_MSG_NEWGEN = (10 << 8) | 15;
const NLM_F_REQUEST = 1;
const NFTA_GEN_ID = 1;
/** The sizes of struct nlmsghdr with struct nfgenmsg, and of the answer up to the end of its first attribute, in bytes. */
const REQUEST_BYTES = 20, ANSWER_BYTES = 28;
const SEQUENCE_OFFSET = 8;

/**
 * Opens a socket that asks the kernel for the generation, which no file shows and `nft` does not print, and gives up the
 * permission to load libraries. Returns undefined if this isolate may not load the C library, or if it is elsewhere.
 */
export function openRulesetGeneration(): RulesetGeneration | undefined {
  const library = C_LIBRARIES.values().map(loadSockets).find((library) => library !== undefined);
  Deno.permissions.revokeSync({ name: "ffi" });
  const socket = library?.symbols.socket(AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_NETFILTER) ?? -1;
  if (library === undefined || socket < 0) return undefined;
  const { send, recv } = library.symbols;
  const request = generationRequest(), answer = new Uint8Array(256);
  let sequence = 0;
  return () => {
    request.setUint32(SEQUENCE_OFFSET, ++sequence, true);
    if (send(socket, request.buffer, BigInt(REQUEST_BYTES), MSG_DONTWAIT) !== BigInt(REQUEST_BYTES)) return undefined;
    // The kernel has answered when send returns.
    const length = recv(socket, answer, BigInt(answer.length), MSG_DONTWAIT);
    return length < BigInt(ANSWER_BYTES) ? undefined : generationIn(new DataView(answer.buffer), sequence);
  };
}

function loadSockets(path: string) {
  if (Deno.permissions.querySync({ name: "ffi", path }).state !== "granted") return undefined;
  try {
    return Deno.dlopen(path, {
      socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
      send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
      recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
    });
  } catch {
    return undefined;
  }
}

function generationRequest(): DataView<ArrayBuffer> {
  const request = new DataView(new ArrayBuffer(REQUEST_BYTES));
  request.setUint32(0, REQUEST_BYTES, true);
  request.setUint16(4, NFT_MSG_GETGEN, true);
  request.setUint16(6, NLM_F_REQUEST, true);
  return request;
}

/** Headers are in the machine's byte order, which is little-endian on both platforms; the value of the attribute is not. */
function generationIn(answer: DataView, sequence: number): number | undefined {
  const isAnswer = answer.getUint16(4, true) === NFT_MSG_NEWGEN && answer.getUint32(SEQUENCE_OFFSET, true) === sequence;
  return isAnswer && answer.getUint16(22, true) === NFTA_GEN_ID ? answer.getUint32(24, false) : undefined;
}

/** Wraps a check of the ruleset, which is not repeated while the generation of its last success lasts. */
export function unlessUnchanged(
  generation: RulesetGeneration | undefined,
  check: () => Promise<boolean>,
): () => Promise<boolean> {
  let passedAt: number | undefined;
  return async () => {
    // Read before the check, so that a change during it is noticed by the next one.
    const before = generation?.();
    if (before !== undefined && before === passedAt) return true;
    passedAt = undefined;
    const hasPassed = await check();
    if (hasPassed) passedAt = before;
    return hasPassed;
  };
}
