/** The fake iptables answers as the real one does: the same inputs go to both, in a network namespace of their own. */
import assert from "node:assert/strict";
import { createProcessRunner } from "../../backends/process_runner.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/environment.ts";
import { createFakeRunner, type Flavour } from "../fakes/runner.ts";
import { CASES, type IptablesCase, type Step } from "./iptables_cases.ts";

const PROGRAMS: Readonly<Record<Flavour, string>> = { nf_tables: "xtables-nft-multi", legacy: "xtables-legacy-multi" };
const TOOLS = ["iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"];

/** What a step left behind, without what differs from run to run. */
interface Answer {
  readonly step: string;
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

const runner = createProcessRunner({ clock: systemClock, path: searchPath() });

async function onKernel(flavour: Flavour, steps: readonly Step[]): Promise<Answer[]> {
  const folder = await Deno.makeTempDir();
  try {
    const { stdout: path } = await runner.run({ tool: "sh", args: ["-c", `command -v ${PROGRAMS[flavour]}`] });
    assert.notEqual(path, "", `${PROGRAMS[flavour]} is not installed`);
    for (const tool of TOOLS) await Deno.symlink(path.trim(), `${folder}/${tool}`);
    let script = `PATH=${folder}:$PATH\n`;
    for (const [i, { tool, args, stdin = "" }] of steps.entries()) {
      await Deno.writeTextFile(`${folder}/${i}.in`, stdin);
      const words = [tool, ...args].map((word) => `'${word}'`).join(" ");
      script +=
        `${words} <${folder}/${i}.in >${folder}/${i}.out 2>${folder}/${i}.err; echo $? >${folder}/${i}.status\n`;
    }
    const { exitCode, stderr } = await runner.run({ tool: "unshare", args: ["-n", "sh", "-c", script] });
    assert.equal(exitCode, 0, stderr);
    const left = (i: number, what: string) => Deno.readTextFile(`${folder}/${i}.${what}`);
    return await Promise.all(
      steps.map(async (step, i) =>
        answer(step, Number(await left(i, "status")), await left(i, "out"), await left(i, "err"))
      ),
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function inMemory(flavour: Flavour, steps: readonly Step[]): Promise<Answer[]> {
  const fake = createFakeRunner({ flavour });
  const answers: Answer[] = [];
  for (const step of steps) {
    const { exitCode, stdout, stderr } = await fake.run({ ...step, stdin: [step.stdin ?? ""] });
    answers.push(answer(step, exitCode, stdout, stderr));
  }
  return answers;
}

function answer({ tool, args }: Step, exitCode: number, stdout: string, stderr: string): Answer {
  return { step: [tool, ...args].join(" "), exitCode, stdout: stdout.replace(/^# .* on .*\n/gm, ""), stderr };
}

function stepsOf({ family = "IPv4", input, then = [] }: IptablesCase): Step[] {
  const tool = family === "IPv4" ? "iptables" : "ip6tables";
  const restores = input === undefined ? [] : [input].flat();
  return [
    ...restores.map((stdin) => ({ tool: `${tool}-restore`, args: ["-w", "5", "--noflush"], stdin })),
    ...then,
    { tool: `${tool}-save`, args: [] },
  ];
}

for (const flavour of ["nf_tables", "legacy"] as const) {
  for (const each of CASES) {
    Deno.test(`${flavour}: ${each.name}`, async () => {
      const steps = stepsOf(each);
      assert.deepEqual(await inMemory(flavour, steps), await onKernel(flavour, steps));
    });
  }
}
