import assert from "node:assert/strict";
import fc from "fast-check";
import { type ServicePort, type ServicePortKey, servicePortKey } from "../../core/model.ts";
import { backendUnderTest, createHost, type Host } from "../unit/iptables/host.ts";
import { plannedPorts, settings } from "./iptables_generators.ts";

const steps = fc.array(
  fc.record({
    does: fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({
          what: fc.constant("set" as const),
          ports: fc.array(plannedPorts, { minLength: 1, maxLength: 30 }),
        }),
      },
      {
        weight: 3,
        arbitrary: fc.record({
          what: fc.constant("delete" as const),
          indexes: fc.array(fc.nat(90), { maxLength: 40 }),
        }),
      },
      { weight: 1, arbitrary: fc.record({ what: fc.constant("whole" as const), settings }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant("restart" as const) }) },
      { weight: 1, arbitrary: fc.record({ what: fc.constant("resync" as const) }) },
    ),
    fails: fc.constantFrom("not", "not", "before its work", "after its work"),
  }),
  { maxLength: 10 },
);

/** Makes the next restore fail for the host's sake; returns what ends it. */
function failRestore({ runner }: Host, afterItsWork: boolean): () => void {
  const stderr = "iptables-restore: Resource temporarily unavailable";
  const failure = { how: "exits", exitCode: 4, stderr, afterItsWork } as const;
  return runner.inject(({ tool }) => tool === "iptables-restore", failure, 1);
}

for (const bpf of [true, false]) {
  Deno.test(`any history of changes, restarts and failed restores ends in the kernel that its end has at once (xt_bpf: ${bpf})`, async () => {
    await fc.assert(
      fc.asyncProperty(settings, steps, async (first, history) => {
        const host = createHost({ bpf });
        const current = new Map<ServicePortKey, ServicePort>();
        let currentSettings = first;
        let under = await backendUnderTest(host);
        const whole = () => under.whole([...current.values()], currentSettings);
        await whole();
        for (const { does, fails } of history) {
          if (does.what === "restart") under = await backendUnderTest(host);
          const end = fails === "not" ? () => {} : failRestore(host, fails === "after its work");
          const apply = (): Promise<unknown> => {
            switch (does.what) {
              case "set":
                for (const port of does.ports) current.set(servicePortKey(port.name, port.protocol), port);
                return under.change(does.ports);
              case "delete": {
                const keys = does.indexes.map((index) => servicePortKey(`default/s${index}:p`, "tcp"));
                for (const key of keys) current.delete(key);
                return under.change([], keys);
              }
              case "whole":
                currentSettings = does.settings;
                return whole();
              case "restart":
                return whole();
              case "resync":
                return under.backend.resync();
            }
          };
          const failure = await apply().then(() => undefined, (error: Error) => error);
          if (failure && !/temporarily unavailable/.test(failure.message)) throw failure;
          end();
          assert.deepEqual((await under.change([])).problems, []);
        }
        const atOnce = await backendUnderTest(createHost({ bpf }));
        await atOnce.whole([...current.values()], currentSettings);
        assert.equal(host.runner.dump(), atOnce.runner.dump());
      }),
      { numRuns: 60 },
    );
  });
}
