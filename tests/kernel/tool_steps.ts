/** Runs the same steps with the real tools and with a fake. */
import type { Runner } from "../../backends/tools/runner.ts";
import { run } from "./blackhole.ts";

/** One run of a tool. */
export interface Step {
  readonly tool: string;
  readonly args: readonly string[];
  readonly stdin?: string;
}

/** A tool's answer to a step. */
export interface Answer {
  readonly step: string;
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Programs by the name of the tool that they implement, e.g. `iptables`: `xtables-nft-multi`. */
export type ToolAliases = Readonly<Record<string, string>>;

/** Runs steps with the real tools in a new network namespace. Throws if a program is not installed. */
export async function onKernel(steps: readonly Step[], aliases: ToolAliases = {}): Promise<Answer[]> {
  const folder = await Deno.makeTempDir();
  try {
    for (const [tool, program] of Object.entries(aliases)) {
      const path = await run("sh", "-c", `command -v ${program}`);
      await Deno.symlink(path.trim(), `${folder}/${tool}`);
    }
    const script = `PATH=${folder}:$PATH\nip link set lo up\n${await stageSteps(steps, folder, folder)}`;
    await run("unshare", "-n", "sh", "-c", script);
    return await readAnswers(steps, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/**
 * Writes the inputs of steps to a folder.
 * @param seenAs the folder's path for the script
 * @returns a shell script that runs the steps and leaves their answers in the folder
 */
export async function stageSteps(steps: readonly Step[], folder: string, seenAs: string): Promise<string> {
  let script = "";
  for (const [i, { tool, args, stdin = "" }] of steps.entries()) {
    await Deno.writeTextFile(`${folder}/${i}.in`, stdin);
    const words = [tool, ...args].map((word) => `'${word}'`).join(" ");
    const file = `${seenAs}/${i}`;
    script += `${words} <${file}.in >${file}.out 2>${file}.err; echo $? >${file}.status\n`;
  }
  return script;
}

/** Reads the answers that the script of `stageSteps` wrote. */
export async function readAnswers(steps: readonly Step[], folder: string): Promise<Answer[]> {
  const left = (i: number, what: string) => Deno.readTextFile(`${folder}/${i}.${what}`);
  return await Promise.all(steps.map(async ({ tool, args }, i) => ({
    step: [tool, ...args].join(" "),
    exitCode: Number(await left(i, "status")),
    stdout: await left(i, "out"),
    stderr: await left(i, "err"),
  })));
}

/** Runs steps with a fake runner. */
export async function inMemory(steps: readonly Step[], fake: Pick<Runner, "run">): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const step of steps) {
    const { exitCode, stdout, stderr } = await fake.run({ ...step, stdin: [step.stdin ?? ""] });
    answers.push({ step: [step.tool, ...step.args].join(" "), exitCode, stdout, stderr });
  }
  return answers;
}
