/** Tools that fail at random, before or after their work, with or without saying so. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type Runner, ToolEndedError, type ToolResult, ToolTimeoutError } from "../../backends/tools/runner.ts";
import { type ServicePort, servicePortKey } from "../../core/model/mod.ts";
import { promisesSettled } from "../fakes/clock.ts";
import { fakeServicePort } from "../fakes/service_port.ts";
import { type BackendCase, BACKENDS, commonSettings, serve } from "../unit/backends/every_backend.ts";
import { runs } from "./runs.ts";

/** A run of a tool: whether it does its work, and how it ends. */
type Fault =
  | "none"
  | "fails"
  | "fails after its work"
  | "lacks memory"
  | "is killed"
  | "is killed after its work"
  | "hangs"
  | "does nothing";

const fault = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Fault>("none") },
  {
    weight: 4,
    arbitrary: fc.constantFrom<Fault>(
      "fails",
      "fails after its work",
      "lacks memory",
      "is killed",
      "is killed after its work",
      "hangs",
    ),
  },
  { weight: 4, arbitrary: fc.constant<Fault>("does nothing") },
);

const SERVICES = 75;
/** These always have an endpoint, and the kernel accepts each of their states. */
const STEADY: readonly number[] = [20, 21, 22, 60, 61, 62];
const addressOf = (index: number) => `10.96.1.${index}`;

function service(index: number, endpoints: number): ServicePort {
  const both = [`10.244.1.${index}:80`, `10.244.2.${index}:80`];
  const clusterEndpoints = endpoints === 0 ? both : [both[endpoints - 1]!];
  return fakeServicePort(`default/svc-${index}:http`, { clusterIP: addressOf(index), clusterEndpoints });
}

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      does: fc.constant("change" as const),
      set: fc.array(fc.tuple(fc.nat(SERVICES - 1), fc.nat(2)), { maxLength: 30 }),
      deleted: fc.array(fc.nat(SERVICES - 1), { maxLength: 20 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("compare" as const) }) },
);
const history = fc.array(fc.tuple(step, fc.array(fault, { maxLength: 8 })), { minLength: 1, maxLength: 12 });

/** Runs tools with these faults, one for each run; `afterwards` is called after each. */
function createFaultyRunner(inner: Runner, takeFault: () => Fault, afterwards: () => void): Runner {
  const result = (exitCode: number, stderr = ""): ToolResult => ({ exitCode, stdout: "", stderr });
  return {
    async run(call) {
      const now = takeFault();
      const work = () => inner.run(call).finally(afterwards);
      switch (now) {
        case "none":
          return await work();
        case "fails":
          return result(1);
        case "fails after its work":
          await work();
          return result(1);
        case "lacks memory":
          return result(1, "Cannot allocate memory");
        case "is killed":
          return result(137);
        case "is killed after its work":
          await work();
          return result(137);
        case "hangs":
          throw new ToolTimeoutError(call.tool, 1);
        case "does nothing":
          call.onLine?.("garbage {{{");
          return { ...result(0), stdout: "garbage {{{\n" };
      }
    },
    converse: inner.converse && ((call) => {
      const conversation = inner.converse!(call);
      return {
        ...conversation,
        async ask(text, end, timeoutMs) {
          const now = text === `${end}\n` ? "none" : takeFault();
          const work = () => conversation.ask(text, end, timeoutMs).finally(afterwards);
          switch (now) {
            case "none":
              return await work();
            case "fails":
            case "lacks memory":
              return `Error: \n${await conversation.ask(`${end}\n`, end, timeoutMs)}`;
            case "does nothing":
              return await conversation.ask(`${end}\n`, end, timeoutMs);
            case "fails after its work":
            case "is killed after its work":
              await work();
              conversation.close();
              throw new ToolEndedError(call.tool);
            default:
              conversation.close();
              throw new ToolEndedError(call.tool);
          }
        },
      };
    }),
  };
}

type Steps = Parameters<Parameters<typeof history.map>[0]>[0];

/** Serves the history; throws if a packet to a steady service is not delivered to one of its endpoints at any moment. */
async function live({ mode, createKernel }: BackendCase, steps: Steps): Promise<void> {
  const kernel = createKernel();
  let faults: readonly Fault[] = [];
  let isServing = false;
  const takeFault = () => {
    const [first = "none", ...others] = faults;
    faults = others;
    return first;
  };
  const check = () => {
    if (!isServing) return;
    for (const index of STEADY) {
      for (const { outcome } of kernel.host.outcomes({ from: "pod-on-node", to: addressOf(index), port: 80 })) {
        assert.equal(outcome.verdict, "delivered", `service ${index}`);
        assert.ok(service(index, 0).clusterEndpoints.includes(outcome.destination), `service ${index}`);
      }
    }
  };
  const served = await serve(mode, {
    ...kernel,
    start: () => kernel.start((runner) => createFaultyRunner(runner, takeFault, check)),
  });
  const ports = new Map(Array.from({ length: SERVICES }, (_, index) => [index, service(index, 0)]));
  await served.snapshot([...ports.values()]);
  isServing = true;
  const end = async (work: Promise<unknown>) => {
    let hasEnded = false;
    work.catch(() => {}).finally(() => hasEnded = true);
    await promisesSettled();
    // A listing that a running nft does not print is awaited for some seconds.
    while (!hasEnded) await kernel.clock.advanceSettled(1_000);
    await work.catch((error) => error instanceof assert.AssertionError ? Promise.reject(error) : undefined);
    faults = [];
    check();
  };
  for (const [step, injected] of steps) {
    // In IPVS mode, nothing tells an incomplete listing from a complete one. In iptables mode, a repair of the same chain
    // that twice does nothing is taken for another spelling of its rules.
    const canDoNothing = mode !== "ipvs" && step.does === "change";
    faults = canDoNothing ? injected : injected.filter((fault) => fault !== "does nothing");
    // An interval after which nothing keeps a comparison from reading everything.
    kernel.clock.advance(1_000);
    if (step.does === "compare") {
      await end(served.resync());
      continue;
    }
    const deleted = step.deleted.filter((index) => !STEADY.includes(index) && ports.delete(index));
    const set = step.set.filter(([index]) => !deleted.includes(index)).map(([index, how]) => service(index, how));
    for (const port of set) ports.set(Number(/\d+/.exec(port.name)![0]), port);
    await end(served.change(
      set,
      deleted.map((index) => servicePortKey(service(index, 0).name, "tcp")),
    ));
  }
  kernel.clock.advance(86_400_000);
  const { problems } = await served.resync();
  assert.deepEqual(problems, []);
  const fresh = createKernel();
  await (await serve(mode, fresh)).snapshot([...ports.values()], commonSettings(mode));
  assert.equal(kernel.dump(), fresh.dump());
}

const change = (set: [number, number][], ...deleted: number[]) => ({ does: "change" as const, set, deleted });

/** Histories that once cost a working service its rules. */
const EXAMPLES: readonly Steps[] = [
  [
    [change([], 25), []],
    [change([[25, 0]]), ["does nothing"]],
    [change([], 16), []],
    [change([]), []],
  ],
  [
    [change([[20, 1]]), ["fails"]],
    [change([[0, 1]]), ["does nothing", "does nothing", "none", "none", "does nothing"]],
    [change([[1, 1]]), []],
    [change([]), []],
  ],
  [
    [change([[0, 1]]), []],
    [change([[60, 1]]), ["fails", "hangs"]],
    [change([]), []],
  ],
  [
    [change([[60, 1]]), ["hangs", "fails"]],
    [change([], 0), ["none", "is killed after its work"]],
    [change([]), []],
  ],
  [
    [change([[20, 1]]), ["does nothing"]],
    [change([], 0), ["fails after its work"]],
    [change([]), ["none", "hangs"]],
    [change([]), []],
  ],
];

for (const backend of BACKENDS) {
  Deno.test(`no run of a tool that fails costs a working service its rules, in ${backend.name} mode`, async () => {
    const examples = EXAMPLES.map((steps): [Steps] => [steps]);
    await fc.assert(fc.asyncProperty(history, (steps) => live(backend, steps)), { ...runs(10), examples });
  });
}
