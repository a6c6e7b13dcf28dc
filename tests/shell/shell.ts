/** Programs that tests in this folder run; a test of one that is not installed is left out. */

/** Whether a program is installed. */
export function isInstalled(program: string): boolean {
  try {
    return new Deno.Command(program, { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Runs a program on an input; throws with its standard error where it fails or says anything there. */
export async function run(program: string, args: readonly string[], input = ""): Promise<string> {
  const child = new Deno.Command(program, { args: [...args], stdin: "piped", stdout: "piped", stderr: "piped" })
    .spawn();
  const writer = child.stdin.getWriter();
  const fed = writer.write(new TextEncoder().encode(input)).then(() => writer.close());
  const [{ code, stdout, stderr }] = await Promise.all([child.output(), fed]);
  const said = new TextDecoder().decode(stderr);
  if (code !== 0 || said !== "") throw new Error(`${program} ended with ${code}: ${said}`);
  return new TextDecoder().decode(stdout);
}
