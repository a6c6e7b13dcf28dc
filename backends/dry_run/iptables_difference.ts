import { type Difference, type Differences, linesOf } from "./difference.ts";
import { differentLines } from "./line_difference.ts";

/** Differences between what iptables-save printed and what iptables-restore would be given, by chain. */
export function createIptablesDifferences(): Differences {
  // The rules of each chain, by `table chain`.
  const held = new Map<string, string[]>(), wanted = new Map<string, string[]>();
  const unwanted = new Set<string>();
  const heads: Difference[] = [];
  let table = "";

  return {
    onRead(_call, line) {
      if (line.startsWith("*")) table = line.slice(1);
      else if (line.startsWith(":")) held.set(placeOf(table, line.slice(1)), []);
      else if (line.startsWith("-A ")) addRule(held, table, line);
    },
    onChange({ stdin = [] }) {
      let into = "";
      for (const line of linesOf(stdin)) {
        if (line.startsWith("*")) into = line.slice(1);
        else if (line.startsWith(":")) wanted.set(placeOf(into, line.slice(1)), []);
        else if (line.startsWith("-A ")) addRule(wanted, into, line);
        else if (line.startsWith("-X ")) unwanted.add(placeOf(into, line.slice(3)));
        else if (line.startsWith("-I ")) {
          const [, chain, rule] = /^-I (\S+) (.*)$/.exec(line)!;
          heads.push({ place: `${into} ${chain}`, what: "differs", lines: [{ sign: "+", text: rule! }] });
        }
      }
    },
    found() {
      const chains = [...wanted].flatMap(([place, rules]): Difference[] => {
        const before = held.get(place);
        if (unwanted.has(place)) {
          return [{ place, what: "unwanted", lines: differentLines(before ?? [], []) }];
        }
        const lines = differentLines(before ?? [], rules);
        return before && lines.length === 0 ? [] : [{ place, what: before ? "differs" : "missing", lines }];
      });
      return [...heads, ...chains.sort((a, b) => a.place < b.place ? -1 : 1)];
    },
  };
}

function placeOf(table: string, rest: string): string {
  return `${table} ${rest.split(" ", 1)[0]}`;
}

function addRule(rules: Map<string, string[]>, table: string, line: string): void {
  const end = line.indexOf(" ", 3);
  rules.get(placeOf(table, line.slice(3, end)))?.push(line.slice(end + 1));
}
