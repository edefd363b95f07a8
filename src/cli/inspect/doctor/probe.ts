/** Whether the API server reaches a webhook of Gatehouse: a dry run of a window that opens nothing, and what came back. */
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { ApiError } from '../../../kube/api-error.ts';
import { OPENED_BY } from '../../../restore/guard.ts';
import { newWindow } from '../../restore/new-window.ts';
import { sentenceOf } from '../../../json/error-message.ts';
import { lookFailed, type Look } from './look.ts';

export type ProbeAnswer =
  /** It let the request pass, or refused it: either way it has judged. */
  | { readonly kind: 'answered' }
  /** The API server's words. */
  | { readonly kind: 'unanswered'; readonly message: string }
  /** The request went through, and nobody was asked. */
  | { readonly kind: 'not-asked' };

/** For a user that does not exist, in one namespace, for a minute. It is only ever sent as a dry run. */
export function probeWindow(namespace: string, now: Date): RestoreWindow {
  const window = newWindow(
    undefined,
    { user: ['gatehouse-doctor-probe'], namespace: [namespace], for: '1m' },
    now,
  );
  const { name, ...metadata } = window.metadata;
  return { ...window, metadata: { ...metadata, generateName: `doctor-${name ?? ''}-` } };
}

/** The mutating entry writes down who opens a window. */
export const answerOf = ({ metadata }: RestoreWindow): ProbeAnswer =>
  metadata.annotations?.[OPENED_BY] === undefined ? { kind: 'not-asked' } : { kind: 'answered' };

const DENIED = /admission webhook "[^"]+\.gatehouse\.dev" denied the request/;
const FAILED = /failed calling webhook "[^"]+\.gatehouse\.dev"/;

/** What a refused dry run says about the webhook. */
export function answerFrom(error: unknown): Look<ProbeAnswer> {
  const message = sentenceOf(error);
  if (error instanceof ApiError) {
    if (DENIED.test(message)) return { kind: 'seen', value: { kind: 'answered' } };
    if (FAILED.test(message))
      return { kind: 'seen', value: { kind: 'unanswered', message: shorter(message) } };
  }
  const refusedByOthers = message.includes('admission webhook') || message.includes('failed calling webhook');
  if (refusedByOthers) return { kind: 'failed', message };
  return lookFailed({ verb: 'create', resource: 'restorewindows.gatehouse.dev' }, error);
}

/** Without the request line, which is ours. */
const shorter = (message: string): string => message.slice(Math.max(0, message.search(FAILED)));
