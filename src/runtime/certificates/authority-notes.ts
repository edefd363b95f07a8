/** What people are told about the authority, beside the steps of a rotation. */
import { AUTHORITY_SECRET, NEW_AUTHORITY } from '../../pki/annotations.ts';
import type { AuthorityVerdict } from '../../pki/authority/recovery.ts';
import { activeGeneration, type Authority } from '../../pki/authority/authority.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Log } from '../../log.ts';
import type { RecordEvent } from '../controller.ts';
import type { RotationNote } from './rotation-note.ts';
import type { WriteRefused } from '../write-refused.ts';

/** The Secret of somebody else with a CA cannot be used. */
export const caRefused = (
  { importFrom = '', namespace }: { readonly importFrom: string | undefined; readonly namespace: string },
  problem: string,
): RotationNote => ({
  type: 'Warning',
  reason: 'CaRefused',
  message: `the CA in secret ${namespace}/${importFrom} cannot be used: ${problem}. Put a self-signed CA and its key there.`,
});

export const madeNote = (kind: 'bootstrap' | 'start-over', authority: Authority): RotationNote => {
  const { id } = activeGeneration(authority);
  return kind === 'bootstrap'
    ? { type: 'Normal', reason: 'AuthorityCreated', message: `generation ${id} is the first one` }
    : {
        type: 'Warning',
        reason: 'AuthorityReplaced',
        message: `generation ${id} takes the place of an authority that is lost, by consent; ${authority.generations.length - 1} old roots are trusted until nothing needs them`,
      };
};

export const mendedNote = (
  verdict: Extract<AuthorityVerdict, { kind: 'write-back' | 'adopt' }>,
): RotationNote =>
  verdict.kind === 'adopt'
    ? { type: 'Normal', reason: 'AuthorityAdopted', message: 'the stored authority is used, by consent' }
    : {
        type: 'Warning',
        reason: 'SignerRestored',
        message: `the stored authority could not be used (${verdict.reason}): the last good copy was written back`,
      };

export const brokenNote = ({
  reason,
  message,
}: Extract<AuthorityVerdict, { kind: 'broken' }>): RotationNote => ({
  type: 'Warning',
  reason: 'SignerBroken',
  message:
    `secret ${AUTHORITY_SECRET} cannot be used (${reason}): ${message}. Nothing is signed or published anew; what is served stays. ` +
    `Restore the secret from a good copy, or annotate it with ${NEW_AUTHORITY}=<reason>` +
    (reason === 'Missing' ? ' (make an empty one for that).' : '.'),
});

/** The write of a step is refused for as long as nobody does something about it. */
export const writeRefusedNote = ({ message }: WriteRefused): RotationNote => ({
  type: 'Warning',
  reason: 'WriteRefused',
  message: `secret ${AUTHORITY_SECRET} is not written: ${message}`,
});

/** Tells people who look at the Secret. */
export type Say = (secret: Secret | undefined, note: RotationNote | undefined) => void;

/** Reasons of notes about a write: the same words mean that it was made once more. */
const WRITTEN: ReadonlySet<string> = new Set(['SignerRestored', 'AuthorityAdopted']);

interface SpeakerDeps {
  readonly namespace: string;
  readonly record: RecordEvent;
  readonly log: Log;
}

/** Says each state once until something else is said, for a reconcile comes back every minute; and each write. */
export function createSpeaker({ namespace, record, log }: SpeakerDeps): Say {
  let last: string | undefined;
  return (secret, note) => {
    if (note === undefined || (note.message === last && !WRITTEN.has(note.reason))) return;
    last = note.message;
    const { type, reason, message } = note;
    const uid = secret?.metadata?.uid;
    const regarding = { apiVersion: 'v1', kind: 'Secret', namespace, name: AUTHORITY_SECRET };
    record({ regarding: { ...regarding, ...(uid === undefined ? {} : { uid }) }, type, reason, message });
    if (type === 'Warning') log.warn({ reason }, message);
  };
}
