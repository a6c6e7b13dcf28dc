/** Answers each line of standard input with a line of JSON on standard output, and exits at the end of the input. */
export async function answerLines(answer: (line: string) => unknown): Promise<void> {
  for await (const line of Deno.stdin.readable.pipeThrough(new TextDecoderStream()).pipeThrough(lineStream())) {
    const text = JSON.stringify(await answer(line)) + "\n";
    await Deno.stdout.write(new TextEncoder().encode(text));
  }
  Deno.exit(0);
}

/** Splits text into lines. */
export function lineStream(): TransformStream<string, string> {
  let rest = "";
  return new TransformStream({
    transform(text, controller) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      for (const line of lines) controller.enqueue(line);
    },
  });
}
