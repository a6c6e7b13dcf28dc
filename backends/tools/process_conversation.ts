import type { Clock } from "../../platform/mod.ts";
import { type Conversation, ToolEndedError, ToolTimeoutError } from "./runner.ts";

/** The pending request. */
interface Question {
  readonly end: string;
  readonly settle: PromiseWithResolvers<string>;
}

/** Options of `converseWith`. The standard input and error of the process are piped. */
export interface ConversationOptions {
  readonly tool: string;
  readonly child: Pick<Deno.ChildProcess, "stdin" | "stderr" | "kill">;
  readonly clock: Clock;
}

/** Starts a conversation with a process that has just been started. */
export function converseWith({ tool, child, clock }: ConversationOptions): Conversation {
  const writer = child.stdin.getWriter();
  const encoder = new TextEncoder();
  let isOpen = true;
  let output = "";
  let question: Question | undefined;

  const over = (error: Error) => {
    isOpen = false;
    question?.settle.reject(error);
    question = undefined;
    writer.abort().catch(() => {});
  };
  const answer = () => {
    if (question === undefined) return;
    const line = `${question.end}\n`;
    const at = output.startsWith(line) ? 0 : output.indexOf(`\n${line}`) + 1;
    if (at === 0 && !output.startsWith(line)) return;
    question.settle.resolve(output.slice(0, at));
    question = undefined;
    output = output.slice(at + line.length);
  };
  const listen = async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      output += decoder.decode(bytes, { stream: true });
      answer();
    }
  };
  listen().catch(() => {}).finally(() => over(new ToolEndedError(tool)));

  return {
    async ask(text, end, timeoutMs) {
      if (!isOpen) throw new ToolEndedError(tool);
      const settle = Promise.withResolvers<string>();
      question = { end, settle };
      const cancel = clock.schedule(timeoutMs, () => {
        child.kill("SIGKILL");
        over(new ToolTimeoutError(tool, timeoutMs));
      });
      writer.write(encoder.encode(text)).catch(() => over(new ToolEndedError(tool)));
      return await settle.promise.finally(cancel);
    },
    isOpen: () => isOpen,
    close() {
      isOpen = false;
      writer.close().catch(() => {});
    },
  };
}
