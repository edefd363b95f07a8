/** `--client-ca`: the file with the CAs of webhook clients, read again when it changes. */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import type { WebhookConfig } from '../config/config.ts';
import { readClientCa, type ClientTrust } from '../server/listener/client-certificates.ts';
import type { Listener } from '../server/listener/listener.ts';
import { messageWithCauses } from '../json/error-message.ts';
import type { Context } from './context.ts';

/**
 * The interval that controller-runtime uses for certificates, in milliseconds. File watches miss volume updates, which
 * swap symbolic links.
 */
const READ_EVERY_MS = 10_000;

/**
 * Undefined without `--client-ca`: any client that reaches the port may send reviews.
 * @throws Error with a message for users when the file cannot be read, or is not a bundle of CAs
 */
export async function readClientTrust({
  clients,
}: Pick<WebhookConfig, 'clients'>): Promise<ClientTrust | undefined> {
  const { ca: file, names, scope } = clients;
  if (file === undefined) return undefined;
  try {
    return { ca: readClientCa(await readFile(file, 'utf8')), names, scope };
  } catch (cause) {
    throw new Error(`--client-ca ${file} cannot be used`, { cause });
  }
}

/** Reads the file at intervals until `signal` aborts. If it is unusable, the previous CAs stay trusted. */
export async function followClientCa(
  { config, metrics, log }: Pick<Context<WebhookConfig>, 'config' | 'metrics' | 'log'>,
  first: ClientTrust,
  listener: Pick<Listener, 'trust'>,
  signal: AbortSignal,
): Promise<void> {
  let known = first.ca;
  let reported: string | undefined;
  while (!signal.aborted) {
    try {
      const next = await readClientTrust(config);
      if (next !== undefined && next.ca !== known) {
        await listener.trust(next);
        known = next.ca;
        log.info({}, 'webhook clients are verified with the new --client-ca');
      }
      reported = undefined;
    } catch (err) {
      metrics.clientCaFailed();
      const message = messageWithCauses(err);
      if (message !== reported)
        log.error({ err }, 'could not use --client-ca: the previous CAs stay trusted');
      reported = message;
    }
    await sleep(READ_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}
