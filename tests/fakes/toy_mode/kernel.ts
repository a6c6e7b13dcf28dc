import { type Runner, ToolMissingError } from "../../../backends/tools/mod.ts";

/** A kernel whose rules are lines; its tool `toyctl` lists and replaces them. */
export interface ToyKernel extends Runner {
  readonly rules: readonly string[];
}

/** Creates a kernel without rules. */
export function createToyKernel(): ToyKernel {
  const rules: string[] = [];
  return {
    rules,
    run({ tool, args: [command, ...lines] }) {
      if (tool !== "toyctl") throw new ToolMissingError(tool);
      if (command === "set") rules.splice(0, rules.length, ...lines);
      const stdout = command === "list" ? rules.join("\n") : "";
      return Promise.resolve({ exitCode: 0, stdout, stderr: "" });
    },
  };
}
