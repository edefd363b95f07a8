/**
 * Asks /readyz again and again, in its own process, as the kubelet does: what the bench computes must not delay the
 * answers. Forked and controlled by rotation.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { answerQuestions } from './child.ts';

export type Question =
  | {
      readonly kind: 'start';
      readonly urls: readonly string[];
    }
  | { readonly kind: 'stop' };

export type Answer =
  | { readonly kind: 'started' }
  /** The longest time until the answer, in milliseconds. */
  | { readonly kind: 'longest'; readonly ms: number };

let stopped = false;
let probes: readonly Promise<number>[] = [];

answerQuestions(async (question: Question): Promise<Answer> => {
  if (question.kind === 'start') {
    for (const url of question.urls) await ask(url); // the first request loads the HTTP client, and connects
    probes = question.urls.map(probe);
    return { kind: 'started' };
  }
  stopped = true;
  return { kind: 'longest', ms: Math.max(...(await Promise.all(probes))) };
});

async function probe(url: string): Promise<number> {
  let longest = 0;
  while (!stopped) {
    longest = Math.max(longest, await ask(url));
    await sleep(20);
  }
  return longest;
}

async function ask(url: string): Promise<number> {
  const startedAt = performance.now();
  await (await fetch(url)).text();
  return performance.now() - startedAt;
}
