import { ParameterProblem, Unsupported } from "./errors.ts";
import { ipHeader, type PacketInFlight } from "./packet.ts";

const LOAD_WORD = 0x20;
const A_TO_X = 0x07;
const JUMP_IF_CONSTANT = 0x15;
const JUMP_IF_X = 0x1d;
const RETURN_CONSTANT = 0x06;

/**
 * Parses a classic BPF program in xt_bpf's notation (`COUNT,CODE JT JF K,…`) and returns a function that runs it on a
 * packet's IP header; a result other than 0 is a match. Supports the instructions that compare words of the header.
 */
export function parseBpf(text: string): (packet: PacketInFlight) => number {
  const [count, ...parts] = text.replace(/,$/, "").split(",");
  const program = parts.map((part) => part.trim().split(/\s+/).map(Number));
  if (program.length < Number(count)) {
    throw new ParameterProblem("bpf: parsed program length is less than the encoded length parameter");
  }
  if (program.length > Number(count)) {
    throw new ParameterProblem("bpf: real program length exceeds the encoded length parameter");
  }
  for (const [code] of program) {
    if (![LOAD_WORD, A_TO_X, JUMP_IF_CONSTANT, JUMP_IF_X, RETURN_CONSTANT].includes(code!)) {
      throw new Unsupported(`BPF instruction ${code}`);
    }
  }
  return (packet) => {
    const header = ipHeader(packet);
    const words = new DataView(header.buffer);
    let a = 0, x = 0;
    for (let at = 0; at < program.length; at++) {
      const [code, ifTrue, ifFalse, k] = program[at] as [number, number, number, number];
      switch (code) {
        case LOAD_WORD:
          if (k + 4 > header.length) return 0;
          a = words.getUint32(k);
          break;
        case A_TO_X:
          x = a;
          break;
        case JUMP_IF_CONSTANT:
          at += a === k ? ifTrue : ifFalse;
          break;
        case JUMP_IF_X:
          at += a === x ? ifTrue : ifFalse;
          break;
        case RETURN_CONSTANT:
          return k;
      }
    }
    return 0;
  };
}
