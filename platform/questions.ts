import type { Clock } from "./clock.ts";

/** Questions to another isolate, each answered by a message with the question's number. */
export interface Questions<Answer> {
  /** Posts a question and resolves with its answer; undefined if there is none, or none within `timeoutMs`. Rejects if it cannot be posted. */
  ask(post: (number: number) => void, timeoutMs?: number): Promise<Answer | undefined>;
  /** Delivers an answer; ignored if its question has timed out. */
  answer(number: number, answer: Answer | undefined): void;
}

/** Questions that wait up to `longestMs` for their answers, unless they say otherwise; without an end by default. */
export function createQuestions<Answer>(clock: Clock, longestMs?: number): Questions<Answer> {
  const waiting = new Map<number, (answer: Answer | undefined) => void>();
  let lastNumber = 0;
  return {
    async ask(post, timeoutMs = longestMs) {
      const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
      const number = ++lastNumber;
      const cancel = timeoutMs === undefined ? () => {} : clock.schedule(timeoutMs, () => resolve(undefined));
      waiting.set(number, resolve);
      try {
        post(number);
        return await promise;
      } finally {
        cancel();
        waiting.delete(number);
      }
    },
    answer: (number, answer) => waiting.get(number)?.(answer),
  };
}
