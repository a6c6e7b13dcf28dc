import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import type { ModeDescription, ModeTool } from "../contract/mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";

/** The tools that every mode runs. */
const SHARED_TOOLS: readonly ModeTool[] = [
  {
    tool: "conntrack",
    version: ["--version"],
    package: "conntrack",
    without: "UDP flows to removed endpoints continue",
  },
  {
    tool: "sysctl",
    version: ["--version"],
    package: "procps",
    without: "kernel settings stay unchanged, including net.ipv4.ip_forward and the conntrack limits",
  },
];

/** A tool and the version that it prints; undefined if it is not installed. */
export interface FoundTool {
  readonly tool: string;
  readonly version: string | undefined;
}

/** Reads the version of each tool that a mode runs. */
export async function findTools(mode: ModeDescription, runner: Runner): Promise<readonly FoundTool[]> {
  return await Promise.all(
    toolsOf(mode).map(async ({ tool, version: args }) => {
      try {
        const { stdout, stderr } = await runner.run({ tool, args });
        return { tool, version: firstLine(stdout) || firstLine(stderr) || "of an unknown version" };
      } catch (error) {
        if (!(error instanceof ToolMissingError)) throw error;
        return { tool, version: undefined };
      }
    }),
  );
}

/** Judges the tools of a mode. */
export function judgeTools(mode: ModeDescription, found: readonly FoundTool[]): readonly Finding[] {
  return toolsOf(mode).map(({ tool, package: name, without }) => {
    const version = found.find((one) => one.tool === tool)?.version;
    if (version !== undefined) return { name: tool, verdict: "green", message: version };
    return problemFinding(
      tool,
      without === undefined ? "tool-missing" : "optional-tool-missing",
      `is not installed, or not on the PATH: ${without ?? `${mode.name} mode needs it`}`,
      `run apt-get install ${name}, or install the equivalent package of your system`,
    );
  });
}

function toolsOf({ tools }: ModeDescription): readonly ModeTool[] {
  return [...tools, ...SHARED_TOOLS];
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.trim();
}
