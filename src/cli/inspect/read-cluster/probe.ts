/** Probes whether the API server reaches the webhooks of Gatehouse, with the dry run of a RestoreWindow. */
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { ApiError } from '../../../kube/api-error.ts';
import { OPENED_BY } from '../../../restore/window.ts';
import { messageWithCauses } from '../../../json/abort.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { RESTORE_WINDOWS } from '../../../runtime/resources.ts';
import { newWindow } from '../../restore/new-window.ts';
import { read, unreadable, type Reading } from './reading.ts';

export type ProbeResult =
  | { readonly kind: 'reached' }
  | { readonly kind: 'unreachable'; readonly message: string }
  | { readonly kind: 'not-called' };

export async function probeWebhook(
  client: Pick<KubeClient, 'create'>,
  namespace: string,
  now: Date,
  signal?: AbortSignal,
): Promise<Reading<ProbeResult>> {
  try {
    const window = probeWindow(namespace, now);
    const { metadata } = await client.create<RestoreWindow>(RESTORE_WINDOWS, window, {
      dryRun: true,
      signal,
    });
    // The mutating webhook annotates each window with the user who opens it.
    return read({ kind: metadata.annotations?.[OPENED_BY] === undefined ? 'not-called' : 'reached' });
  } catch (error) {
    return probeResult(error);
  }
}

/** A window of one minute for a user that does not exist, in one namespace. Sent only as a dry run. */
function probeWindow(namespace: string, now: Date): RestoreWindow {
  const flags = { user: ['gatehouse-doctor-probe'], namespace: [namespace], for: '1m' };
  const window = newWindow(undefined, flags, now);
  const { name, ...metadata } = window.metadata;
  return { ...window, metadata: { ...metadata, generateName: `doctor-${name ?? ''}-` } };
}

const DENIED = /admission webhook "[^"]+\.gatehouse\.dev" denied the request/;
const FAILED = /failed calling webhook "[^"]+\.gatehouse\.dev"/;

function probeResult(error: unknown): Reading<ProbeResult> {
  const message = messageWithCauses(error);
  if (error instanceof ApiError) {
    if (DENIED.test(message)) return read({ kind: 'reached' });
    const start = message.search(FAILED);
    if (start !== -1) return read({ kind: 'unreachable', message: message.slice(start) });
  }
  const isOtherWebhook = message.includes('admission webhook') || message.includes('failed calling webhook');
  if (isOtherWebhook) return { kind: 'unread', reason: 'Failed', message };
  return unreadable({ verb: 'create', resource: 'restorewindows.gatehouse.dev' }, error);
}
