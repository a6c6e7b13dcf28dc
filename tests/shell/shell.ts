/** Runs the programs that these tests need; tests of programs that are not installed are skipped. */

/** Whether a program is installed. */
export function isInstalled(program: string): boolean {
  try {
    return new Deno.Command(program, { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Runs a program and returns its standard output; throws if it fails or writes to standard error. */
export async function run(program: string, args: readonly string[], input = ""): Promise<string> {
  const child = new Deno.Command(program, { args: [...args], stdin: "piped", stdout: "piped", stderr: "piped" })
    .spawn();
  const writer = child.stdin.getWriter();
  const fed = writer.write(new TextEncoder().encode(input)).then(() => writer.close());
  const [{ code, stdout, stderr }] = await Promise.all([child.output(), fed]);
  const printed = new TextDecoder().decode(stderr);
  if (code !== 0 || printed !== "") throw new Error(`${program} exited with ${code}: ${printed}`);
  return new TextDecoder().decode(stdout);
}
