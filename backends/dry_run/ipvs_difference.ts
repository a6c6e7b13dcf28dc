import { type Difference, type Differences, linesOf } from "./difference.ts";
import type { DifferentLine } from "./line_difference.ts";

/** How a line of a tool's input reads as a difference: what it is about, and what of it is there or should be. */
interface Reading {
  readonly pattern: RegExp;
  readonly sign: "+" | "-";
  /** The groups of the pattern that name the place, and the line. */
  readonly place: (groups: readonly string[]) => string;
  readonly text: (groups: readonly string[]) => string;
}

const READINGS: Readonly<Record<string, readonly Reading[]>> = {
  ipvsadm: [
    {
      pattern: /^-[AaEe] (\S+ \S+) (.*)$/,
      sign: "+",
      place: ([server]) => `virtual server ${server}`,
      text: ([, rest]) => rest!,
    },
    {
      pattern: /^-[Dd] (\S+ \S+) ?(.*)$/,
      sign: "-",
      place: ([server]) => `virtual server ${server}`,
      text: ([, rest]) => rest || "the virtual server itself",
    },
  ],
  ipset: [
    { pattern: /^create (\S+) (.*)$/, sign: "+", place: ([set]) => `ipset ${set}`, text: ([, rest]) => `a ${rest}` },
    { pattern: /^add (\S+) (.*)$/, sign: "+", place: ([set]) => `ipset ${set}`, text: ([, element]) => element! },
    { pattern: /^del (\S+) (.*)$/, sign: "-", place: ([set]) => `ipset ${set}`, text: ([, element]) => element! },
    { pattern: /^destroy (\S+)$/, sign: "-", place: ([set]) => `ipset ${set}`, text: () => "the set itself" },
  ],
  ip: [
    {
      pattern: /^addr add (\S+) dev (\S+)$/,
      sign: "+",
      place: ([, dev]) => `interface ${dev}`,
      text: ([address]) => address!,
    },
    {
      pattern: /^addr del (\S+) dev (\S+)$/,
      sign: "-",
      place: ([, dev]) => `interface ${dev}`,
      text: ([address]) => address!,
    },
    { pattern: /^link add (\S+) (.*)$/, sign: "+", place: ([dev]) => `interface ${dev}`, text: ([, rest]) => rest! },
  ],
};

/** Differences by what ipvsadm, ipset, ip and any other tool would be given: each tells only of what is to change. */
export function createOperationDifferences(): Differences {
  const lines = new Map<string, DifferentLine[]>();
  const put = (place: string, line: DifferentLine) => {
    const known = lines.get(place);
    if (known) known.push(line);
    else lines.set(place, [line]);
  };
  return {
    onRead() {},
    onChange({ tool, args, stdin }) {
      for (const text of stdin ? linesOf(stdin) : [args.join(" ")]) {
        const reading = READINGS[tool]?.find(({ pattern }) => pattern.test(text));
        if (!reading) put(tool, { sign: "+", text });
        else {
          const groups = reading.pattern.exec(text)!.slice(1);
          put(reading.place(groups), { sign: reading.sign, text: reading.text(groups) });
        }
      }
    },
    found: () => [...lines].map(([place, different]): Difference => ({ place, what: "differs", lines: different })),
  };
}
