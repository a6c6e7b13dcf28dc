/** A state through KPNG and Sluice, in every order: what arrives must be what Sluice reads from the file itself. */
import { program } from "../../demo/sluice.ts";
import type { Bench } from "./processes.ts";

/** Where in the chain KPNG is. */
export const CHAINS = {
  "KPNG's server to Sluice": ["kpng file to-api", "sluice export"],
  "Sluice's server to KPNG": ["sluice serve", "kpng api to-file"],
  "Sluice to KPNG to Sluice": ["sluice serve", "kpng api to-api", "sluice export"],
  "KPNG to Sluice to KPNG": ["kpng file to-api", "sluice serve", "kpng api to-file"],
} as const;

/** The name of a chain. */
export type Chain = keyof typeof CHAINS;

/**
 * Passes a state file through a chain, changes the file, and checks that both states arrive.
 * @throws with both states and the programs' logs if one does not
 */
export async function passStates(bench: Bench, kpng: string, chain: Chain, states: readonly string[]): Promise<void> {
  const input = `${bench.folder}/input.yaml`, output = `${bench.folder}/output.yaml`;
  const write = async (state: string) => {
    Deno.writeTextFileSync(`${input}.next`, state);
    const readable = await exported(`${input}.next`);
    // KPNG cannot read what it wrote itself if a service has session affinity.
    if (CHAINS[chain][0] === "kpng file to-api") Deno.writeTextFileSync(`${input}.next`, readable);
    Deno.renameSync(`${input}.next`, input);
    return comparable(readable);
  };
  const [first = "", ...others] = states;
  const expected = await write(first);
  let from = "";
  for (const step of CHAINS[chain]) from = startStep(step, { bench, kpng, input, output, from });
  const arrived = () => comparable(read(output));
  if (CHAINS[chain].at(-1) === "kpng api to-file") {
    // KPNG writes another YAML than Sluice, which reads it and writes its own.
    const own = `${bench.folder}/own.yaml`;
    bench.sluice(["export", "--source", `state:${output}`, "--to", own]);
    await bench.until(expected, () => comparable(read(own)));
    for (const state of others) {
      await bench.until(await write(state), () => comparable(read(own)));
    }
    return;
  }
  await bench.until(expected, arrived);
  for (const state of others) {
    await bench.until(await write(state), arrived);
  }
}

/** The start of a step, and its neighbours in the chain. */
interface StepOptions {
  readonly bench: Bench;
  readonly kpng: string;
  readonly input: string;
  readonly output: string;
  /** The address of the server before; empty for the first step. */
  readonly from: string;
}

/** Starts one step; returns the address that it serves, if any. */
function startStep(step: string, { bench, kpng, input, output, from }: StepOptions): string {
  const address = bench.freeAddress();
  const listen = `tcp://${address}`;
  const source = from === "" ? `state:${input}` : `grpc://${from}`;
  switch (step) {
    case "kpng file to-api":
      bench.start(kpng, ["file", "to-api", `--${fileFlag(kpng, ["file", "to-api"])}=${input}`, `--listen=${listen}`]);
      break;
    case "kpng api to-api":
      bench.start(kpng, ["api", "to-api", `--api=${from}`, `--listen=${listen}`]);
      break;
    case "kpng api to-file":
      bench.start(kpng, ["api", "to-file", `--api=${from}`, `--${fileFlag(kpng, ["api", "to-file"])}=${output}`]);
      break;
    case "sluice serve":
      bench.sluice([
        ...["serve", "--source", source, "--listen", listen],
        ...["--healthz-bind-address", "", "--metrics-bind-address", ""],
      ]);
      break;
    default:
      bench.sluice(["export", "--source", source, "--to", output]);
  }
  return address;
}

/**
 * The flag that names the file of a command, by the command's help, since it differs between KPNG's versions.
 * @throws if the help has none
 */
function fileFlag(kpng: string, command: readonly string[]): string {
  const { stdout, stderr } = new Deno.Command(kpng, { args: [...command, "--help"] }).outputSync();
  const help = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  const names = command.includes("to-file") ? ["output", "out", "file", "path"] : ["input", "in", "file", "path"];
  const found = names.find((name) => new RegExp(`--${name}\\b`).test(help));
  if (found === undefined) throw new Error(`${kpng} ${command.join(" ")} has no flag for its file:\n${help}`);
  return found;
}

/** Reads a state file with Sluice; returns the state file that it writes. */
async function exported(path: string): Promise<string> {
  const [command = "", ...args] = program();
  const { code, stdout, stderr } = await new Deno.Command(command, {
    args: [...args, "export", "--source", `state:${path}`, "--to", "-"],
  }).output();
  if (code !== 0) throw new Error(`sluice cannot read ${path}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** A state file written by Sluice, without its order: services sorted, and the endpoints of each. */
function comparable(state: string): string {
  const [nodes = "", services = ""] = state.split("services:\n");
  const blocks = services.split(/^(?=- service)/m).map((block) => {
    const [service = "", heading = "", ...endpoints] = block.split("\n");
    return [service, heading, ...endpoints.filter((line) => line !== "").sort()].join("\n");
  });
  return [...nodes.trimEnd().split("\n").sort(), ...blocks.sort()].join("\n");
}

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}
