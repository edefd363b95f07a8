/** Whether the API server reaches this machine: a dry run that it has to ask about, and whether it was asked here. */
import { setTimeout as sleep } from 'node:timers/promises';

import { answerFrom, probeWindow } from '../inspect/doctor/probe.ts';
import type { Context } from '../../runtime/context.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';

/** The API server learns of new entries by a watch, and waits five seconds for an answer that does not come. */
const PATIENCE_MS = 15_000;
const AGAIN_MS = 250;

/** @throws with the API server's words when it does not come here */
export async function seeReached(
  { client, config, serverClock, log }: Context,
  wasAsked: () => boolean,
  url: string,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  let last = 'it asked somebody else';
  while (!wasAsked()) {
    if (performance.now() > deadline)
      throw new Error(
        `the API server does not reach ${url}: ${last}. Look whether that name leads to this machine from where the API ` +
          'server runs, and whether a firewall lets it in. The webhook entries are put back',
      );
    try {
      const window = probeWindow(config.namespace, serverClock.now());
      await client.create(RESTORE_WINDOWS, window, { dryRun: true, signal });
    } catch (error) {
      signal.throwIfAborted();
      const answer = answerFrom(error);
      if (answer.kind === 'forbidden') {
        log.warn(
          { url },
          'may not create RestoreWindows, not even as a dry run: cannot see whether we are reached',
        );
        return;
      }
      if (answer.kind === 'seen' && answer.value.kind === 'unanswered') last = answer.value.message;
      if (answer.kind === 'failed') last = answer.message;
    }
    if (!wasAsked()) await sleep(AGAIN_MS, undefined, { signal });
  }
}
