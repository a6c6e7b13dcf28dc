import assert from "node:assert/strict";
import fc from "fast-check";
import { type ServicePort, type ServicePortKey, servicePortKey } from "../../core/model.ts";
import { backendUnderTest, createHost, type Host } from "../unit/iptables/host.ts";
import { plannedPorts, settings } from "./iptables_generators.ts";

const failures = fc.constantFrom("not" as const, "not" as const, "before its work" as const, "after its work" as const);

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
    fails: failures,
  }),
  { maxLength: 10 },
);

/** Does something, where the first restore may fail for the host's sake. */
async function attempt({ runner }: Host, fails: string, action: () => Promise<unknown>): Promise<void> {
  const stderr = "iptables-restore: Resource temporarily unavailable";
  const failure = { how: "exits", exitCode: 4, stderr, afterItsWork: fails === "after its work" } as const;
  const end = fails === "not" ? () => {} : runner.inject(({ tool }) => tool === "iptables-restore", failure, 1);
  const failed = await action().then(() => undefined, (error: Error) => error);
  if (failed && !failed.message.includes(stderr)) throw failed;
  end();
}

for (const bpf of [true, false]) {
  Deno.test(`any history of changes, restarts and failed restores ends in the kernel that its end has at once (xt_bpf: ${bpf})`, async () => {
    await fc.assert(
      fc.asyncProperty(settings, failures, steps, async (first, firstFails, history) => {
        const host = createHost({ bpf });
        const current = new Map<ServicePortKey, ServicePort>();
        let currentSettings = first;
        let under = await backendUnderTest(host);
        const whole = () => under.whole([...current.values()], currentSettings);
        await attempt(host, firstFails, whole);
        await under.change([]);
        for (const { does, fails } of history) {
          if (does.what === "restart") under = await backendUnderTest(host);
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
          await attempt(host, fails, apply);
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
