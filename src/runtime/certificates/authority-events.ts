/** Events on the Secret of the authority. */
import { pick } from '../../json/objects.ts';
import type { EventNote } from '../../kube/events.ts';
import { withKind } from '../../kube/object.ts';
import { secrets } from '../../kube/well-known.ts';
import { AUTHORITY_SECRET, NEW_AUTHORITY } from '../../pki/annotations.ts';
import { activeGeneration, type Authority } from '../../pki/authority/authority.ts';
import type { AuthorityVerdict } from '../../pki/authority/recovery.ts';
import type { RotationPlan } from '../../pki/authority/rotation-plan.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { regarding, type RecordEvent } from '../controller.ts';
import type { Log } from '../../log.ts';

export type AuthorityEvent = Pick<EventNote, 'type' | 'reason' | 'message'>;

const normal = (reason: string, message: string): AuthorityEvent => ({ type: 'Normal', reason, message });
const warning = (reason: string, message: string): AuthorityEvent => ({ type: 'Warning', reason, message });

export const caRefused = (namespace: string, name: string, problem: string): AuthorityEvent =>
  warning(
    'CaRefused',
    `the CA in secret ${namespace}/${name} cannot be used: ${problem}. Put a self-signed CA and its key there.`,
  );

export function authorityCreated(kind: 'bootstrap' | 'start-over', authority: Authority): AuthorityEvent {
  const { id } = activeGeneration(authority);
  return kind === 'bootstrap'
    ? normal('AuthorityCreated', `generation ${id} is the first one`)
    : warning(
        'AuthorityReplaced',
        `generation ${id} replaces a lost authority, as the annotation ${NEW_AUTHORITY} allows; ` +
          `${authority.generations.length - 1} old roots stay trusted until nothing needs them`,
      );
}

export const authorityRestored = (
  verdict: Extract<AuthorityVerdict, { kind: 'write-back' | 'adopt' }>,
): AuthorityEvent =>
  verdict.kind === 'adopt'
    ? normal('AuthorityAdopted', `the stored authority is used, as the annotation ${NEW_AUTHORITY} allows`)
    : warning(
        'SignerRestored',
        `the stored authority could not be used (${verdict.reason}): the last good copy was written back`,
      );

export const signerBroken = ({
  reason,
  message,
}: Extract<AuthorityVerdict, { kind: 'broken' }>): AuthorityEvent =>
  warning(
    'SignerBroken',
    `secret ${AUTHORITY_SECRET} cannot be used (${reason}): ${message}. ` +
      'Gatehouse signs and publishes nothing until it can be; existing certificates stay in use. ' +
      `Restore the secret from a good copy, or annotate it with ${NEW_AUTHORITY}=<reason>` +
      (reason === 'Missing' ? ' (create an empty secret first).' : '.'),
  );

export const writeRefused = (problem: string): AuthorityEvent =>
  warning('WriteRefused', `secret ${AUTHORITY_SECRET} is not written: ${problem}`);

export const rotationRefused = (message: string): AuthorityEvent => warning('RotationRefused', message);

/** An Event has room for a thousand characters. */
const MAX_NAMED = 5;

/** @param targets still without the root of the generation; at least one */
export function rotationWaiting(id: string, targets: readonly string[]): AuthorityEvent {
  const named = targets.slice(0, MAX_NAMED).join(', ');
  const rest = targets.length > MAX_NAMED ? ` and ${targets.length - MAX_NAMED} more` : '';
  return normal(
    'RotationWaiting',
    `generation ${id} signs nothing before every target trusts it; still without its root: ${named}${rest}`,
  );
}

/** Undefined for steps that only store a timestamp. */
export function rotationStepped(
  plan: RotationPlan,
  { generations }: Authority,
  now: Date,
): AuthorityEvent | undefined {
  switch (plan.kind) {
    case 'none':
    case 'note-drained':
      return undefined;
    case 'prepare':
      return normal(
        'RotationStarted',
        `generation ${generations[0]?.id ?? ''} was made (${plan.reason}); its root is published before it signs`,
      );
    case 'publish':
      return normal(
        'RotationPublished',
        `every target holds the root of generation ${plan.id} since ${now.toISOString()}`,
      );
    case 'activate':
      return plan.reason === 'Propagated'
        ? normal(
            'RotationActivated',
            `generation ${plan.id} signs from now on; the key of the previous generation is destroyed`,
          )
        : warning(
            'RotationActivated',
            `generation ${plan.id} signs from now on, because the previous generation ends soon; some targets may lack its root`,
          );
    case 'retire':
      return plan.reason === 'FromTheFuture'
        ? warning(
            'RotationAbandoned',
            `generation ${plan.ids.join()} was made by a clock far ahead of this one: it is removed unused`,
          )
        : normal(
            'RotationRetired',
            `nothing needs generation ${plan.ids.join(', ')} any more (${plan.reason}): it is no longer trusted`,
          );
    case 'distrust':
      return warning('GenerationDistrusted', distrustMessage(plan, generations[0]?.id));
    case 'renew-root':
      return normal('RootRenewed', 'the owner of the CA renewed its certificate; the key is the same');
  }
}

function distrustMessage(
  { id, ids, replace }: Extract<RotationPlan, { kind: 'distrust' }>,
  active: string | undefined,
): string {
  const others = ids.filter((one) => one !== id);
  const alsoGone =
    others.length === 0
      ? ''
      : `, nor is ${others.join(', ')}, which has a bridge to it or whose key was stored with its key`;
  return `generation ${id} is no longer trusted${alsoGone}${replace ? `; generation ${active ?? ''} signs from now on` : ''}`;
}

/** Records an Event on the Secret, unless it repeats the previous one. */
export type Announce = (secret: Secret | undefined, event: AuthorityEvent | undefined) => void;

/** Each of these Events reports a write. A repeated message reports another write. */
const WRITTEN: ReadonlySet<string> = new Set(['SignerRestored', 'AuthorityAdopted']);

/** A reconcile runs every minute, so a state is announced once, until another follows it. */
export function createAnnouncer(namespace: string, record: RecordEvent, log: Log): Announce {
  let last: string | undefined;
  return (secret, event) => {
    if (event === undefined || (event.message === last && !WRITTEN.has(event.reason))) return;
    last = event.message;
    const metadata = { namespace, name: AUTHORITY_SECRET, ...pick(secret?.metadata ?? {}, 'uid') };
    record({ regarding: regarding(withKind(secrets, { metadata })), ...event });
    if (event.type === 'Warning') log.warn({ reason: event.reason }, event.message);
  };
}
