import { lineStream } from "./text_lines.ts";

/** Answers each line of standard input with a line of JSON on standard output; ends the process when there are no more. */
export async function answerLines(answer: (line: string) => unknown): Promise<void> {
  for await (const line of Deno.stdin.readable.pipeThrough(new TextDecoderStream()).pipeThrough(lineStream())) {
    const text = JSON.stringify(await answer(line)) + "\n";
    await Deno.stdout.write(new TextEncoder().encode(text));
  }
  Deno.exit(0);
}
