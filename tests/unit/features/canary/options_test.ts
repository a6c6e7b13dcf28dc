import assert from "node:assert/strict";
import { type CanaryOptions, checkCanary, decideCanaryRanges } from "../../../../features/canary/options.ts";

const OPTIONS: CanaryOptions = { enabled: true, addressRanges: [], intervalMs: 2_000, timeoutMs: 1_000 };

/** The reports about these options, without the common beginning of their paths. */
function reported(changes: Partial<CanaryOptions>): readonly string[] {
  const lines: string[] = [];
  checkCanary(
    { ...OPTIONS, ...changes },
    (path, value, must) => lines.push(`${path.replace("canary.", "")} ${value} ${must}`),
  );
  return lines;
}

const ranges = (...addressRanges: readonly string[]) => decideCanaryRanges({ addressRanges });

Deno.test("a family has the range that is given for it, in its canonical form; without any, both have the default", () => {
  assert.deepEqual(ranges(), { IPv4: "169.254.238.0/28", IPv6: "fd53:6c75:6963:65::/64" });
  assert.deepEqual(ranges("10.250.0.0/30"), { IPv4: "10.250.0.0/30" });
  assert.deepEqual(ranges("FD00:0:0:1::/126", "10.250.0.0/31"), { IPv6: "fd00:0:0:1::/126", IPv4: "10.250.0.0/31" });
  assert.deepEqual(reported({}), []);
  assert.deepEqual(reported({ addressRanges: ["fd00:1::/127", "10.250.0.0/31"] }), []);
});

Deno.test("a range must be a prefix of more than one address, of a family of its own, which nothing else uses", () => {
  const table: readonly (readonly [given: readonly string[], ...reported: readonly string[]])[] = [
    [["10.250.0.1"], "addressRanges[0] 10.250.0.1 must be a CIDR such as 169.254.238.0/28"],
    [["10.250.0.0/32"], "addressRanges[0] 10.250.0.0/32 must have more than one address: /30 or shorter"],
    [["fd00:1::/128"], "addressRanges[0] fd00:1::/128 must have more than one address: /126 or shorter"],
    [["fe80::/64"], "addressRanges[0] fe80::/64 must not be link-local: these addresses need an interface"],
    [["10.250.0.0/30", "10.251.0.0/30"], "addressRanges[1] 10.251.0.0/30 must be the only range of IPv4"],
    ...[["169.254.169.0/28", "169.254.169.0/24"], ["169.254.0.0/16", "169.254.169.0/24"], [
      "fd00:ec2:1::/64",
      "fd00:ec2::/32",
    ]]
      .map(([given, taken]) =>
        [
          [given!],
          `addressRanges[0] ${given} must not overlap ${taken}, which other programs on nodes use`,
        ] as const
      ),
  ];
  for (const [addressRanges, ...expected] of table) assert.deepEqual(reported({ addressRanges }), expected);
  assert.deepEqual(ranges("10.250.0.0/30", "10.251.0.0/30", "nonsense"), { IPv4: "10.250.0.0/30" });
});

Deno.test("the interval and the timeout have a least value, and the timeout ends before the next try", () => {
  assert.deepEqual(reported({ intervalMs: 500, timeoutMs: 100 }), []);
  assert.deepEqual(reported({ intervalMs: 500, timeoutMs: 500 }), []);
  assert.deepEqual(reported({ intervalMs: 499, timeoutMs: 99 }), [
    ...["interval 499ms must be 500ms or longer", "timeout 99ms must be 100ms or longer"],
  ]);
  assert.deepEqual(reported({ intervalMs: 1_000, timeoutMs: 1_001 }), [
    "timeout 1.001s must not be longer than canary.interval",
  ]);
});
