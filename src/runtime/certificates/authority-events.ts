import { someOf } from '../../json/counted.ts';
import { pick } from '../../json/json.ts';
import type { EventNote } from '../../kube/events.ts';
import { withKind } from '../../kube/object.ts';
import { secrets } from '../../kube/well-known.ts';
import { AUTHORITY_SECRET, NEW_AUTHORITY, ROTATE } from '../../pki/annotations.ts';
import {
  activeGeneration,
  type Authority,
  delayEnd,
  isLinked,
  type LaggingTargets,
  namesOf,
  type UnreadableKind,
} from '../../pki/authority/authority.ts';
import { type Generation, pathOf, rootsOf } from '../../pki/authority/generation.ts';
import type { AuthorityVerdict } from '../../pki/authority/recovery.ts';
import type { RotationPlan } from '../../pki/authority/rotation-plan.ts';
import { retirementTime } from '../../pki/authority/trust-record.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { certificateFields, forbiddenName } from '../../pki/x509/certificate-fields.ts';
import { type RecordEvent, regarding } from '../controller.ts';
import { adviceOn } from '../../kube/refusal-advice.ts';
import type { Log } from '../../log.ts';

export type AuthorityEvent = Pick<EventNote, 'type' | 'reason' | 'message'>;
const normal = (reason: string, message: string): AuthorityEvent => ({ type: 'Normal', reason, message });
const warning = (reason: string, message: string): AuthorityEvent => ({ type: 'Warning', reason, message });

export const caRefused = (namespace: string, name: string, problem: string): AuthorityEvent =>
  warning(
    'CaRefused',
    `the CA in secret ${namespace}/${name} cannot be used: ${problem}. Put the CA, its chain up to the root and its key there.`,
  );

/** Not a refusal: a Service of a tenant would otherwise keep the operator from using the CA. */
export const caForServersOnly = (namespace: string, name: string): AuthorityEvent =>
  warning(
    'CaForServersOnly',
    `the CA in secret ${namespace}/${name} cannot sign client certificates, which Services request: its extended key usage lacks clientAuth. ` +
      'Services do not get these certificates (Event NameNotPermitted). Put a CA there that has clientAuth, or that lacks an extended key usage',
  );

export const caUnreadable = (namespace: string, name: string, problem: string): AuthorityEvent =>
  warning(
    'CaUnreadable',
    `secret ${namespace}/${name} (--ca-secret) cannot be read, so a new CA in it is not noticed. ${adviceOn(problem)} ` +
      `The error: ${problem}`,
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
        verdict.reason === 'Incomplete'
          ? 'parts of the stored authority were missing or older than before (Incomplete): they were written back'
          : `the stored authority could not be used (${verdict.reason}): the last good copy was written back`,
      );

export const signerBroken = ({
  reason,
  message,
}: Extract<AuthorityVerdict, { kind: 'broken' }>): AuthorityEvent =>
  warning(
    'SignerBroken',
    `secret ${AUTHORITY_SECRET} cannot be used (${reason}): ${message}. ` +
      'Gatehouse signs and publishes nothing until it can be; existing certificates remain in use. ' +
      `Restore the secret from a good copy, or annotate it with ${NEW_AUTHORITY}=<reason>` +
      (reason === 'Missing' ? ' (create an empty secret first).' : '.'),
  );

export const writeRefused = (problem: string): AuthorityEvent =>
  warning('WriteRefused', `secret ${AUTHORITY_SECRET} is not written: ${problem}`);

export const trustNotRecorded = (since: Date): AuthorityEvent =>
  warning(
    'TrustNotRecorded',
    `Gatehouse signs no certificates of full length since ${since.toISOString()}: it cannot record in secret ${AUTHORITY_SECRET} until when ` +
      'their root must be trusted. Existing certificates remain in use, and are not renewed. Find out why the secret is not written: ' +
      'the Event WriteRefused and the log of the leader have the reason',
  );

export const rotationRefused = (message: string): AuthorityEvent => warning('RotationRefused', message);

export const targetsUnreadable = ({ kind, canVeto, problem }: UnreadableKind): AuthorityEvent =>
  warning(
    'TargetsUnreadable',
    `objects of kind ${kind} do not get the CA bundle, and each rotation waits ` +
      `${canVeto ? 'for them until the previous generation is about to end' : 'six hours for them'}: ` +
      `the API server does not let Gatehouse list them. ${adviceOn(problem)} It says: ${problem}`,
  );

/** An Event has room for a thousand characters. */
const MAX_NAMED = 5;

export function rotationWaiting(pending: Generation, lagging: LaggingTargets): AuthorityEvent | undefined {
  const without = namesOf(lagging) ?? [];
  if (without.length === 0) return undefined;
  const until = lagging.vetoing.length === 0 ? ` until ${delayEnd(pending).toISOString()} at the latest` : '';
  return normal(
    'RotationWaiting',
    `generation ${pending.id} waits${until} for the targets without its root: ${someOf(without, MAX_NAMED)}`,
  );
}

function lacking(without: readonly string[] | undefined): string {
  return without === undefined
    ? 'Gatehouse cannot read which targets hold its root'
    : `these targets lack its root: ${someOf(without, MAX_NAMED)}`;
}

/** Undefined for a step that only extends a record. `names`: those that every CA must be able to sign. */
export function rotationStepped(
  plan: RotationPlan,
  { generations }: Authority,
  now: Date,
  names: readonly string[],
): AuthorityEvent | undefined {
  switch (plan.kind) {
    case 'none':
      return undefined;
    case 'record-trust': {
      const until = plan.until.toISOString();
      const message = `generation ${plan.ids.join()} was recorded for less than its certificates last: its root stays until ${until}`;
      return plan.isMovedBack === true ? warning('TrustExtended', message) : undefined;
    }
    case 'prepare':
      return prepared(plan, generations, names);
    case 'publish':
      return plan.without?.length === 0
        ? normal(
            'RotationPublished',
            `every target holds the root of generation ${plan.id} since ${now.toISOString()}`,
          )
        : warning(
            'RotationPublished',
            `the rotation to generation ${plan.id} continues, and ${lacking(plan.without)}`,
          );
    case 'activate':
      return activated(
        plan,
        generations.find(({ state }) => state === 'retiring'),
        names,
      );
    case 'retire':
      if (plan.reason === 'Withdrawn')
        return normal(
          'RotationAbandoned',
          `generation ${plan.ids.join()} is removed unused, because another CA or other certificates replaced it`,
        );
      return plan.reason === 'FromTheFuture'
        ? warning(
            'RotationAbandoned',
            `generation ${plan.ids.join()} was made by a clock far ahead of this one: it is removed unused`,
          )
        : normal(
            'RotationRetired',
            `generation ${plan.ids.join(', ')} is not trusted anymore, because nothing needs it (${plan.reason})`,
          );
    case 'abandon':
      return warning(
        'RotationAbandoned',
        `generation ${plan.id} must not sign: ${plan.problem}; it is removed unused, and the current one continues to sign. Set ${ROTATE} to a new value to try again before half of its life`,
      );
    case 'distrust':
      return warning('GenerationDistrusted', distrustMessage(plan, generations[0]?.id));
    case 'renew-root':
      return renewed(generations.find(({ state }) => state === 'active'));
  }
}

function prepared(
  { reason }: Extract<RotationPlan, { kind: 'prepare' }>,
  [pending, active]: readonly Generation[],
  names: readonly string[],
): AuthorityEvent {
  const message = `generation ${pending?.id ?? ''} was made (${reason}); its root is published before it signs`;
  if (pending === undefined || active === undefined) return normal('RotationStarted', message);
  if (!isLinked(pending, active))
    return warning(
      'RotationStarted',
      `${message}; clients that load their CA bundle only once must restart until then, because generation ${active.id} cannot sign a bridge to it`,
    );
  const limits = constraintWarning(active, names);
  return limits === undefined
    ? normal('RotationStarted', message)
    : warning('RotationStarted', `${message}; ${limits}`);
}

/** Clients apply the name constraints of the root that they hold, also to a cert that they reach over a bridge. */
function constraintWarning(previous: Generation | undefined, names: readonly string[]): string | undefined {
  const name = previous && forbiddenName(pathOf(previous).map(certificateFields), names);
  return (
    name &&
    `clients that have loaded only the root of generation ${previous.id} reject each new certificate with a name outside its ` +
      `name constraints, such as ${name}: restart them before their servers get such names`
  );
}

function renewed(generation: Generation | undefined): AuthorityEvent {
  const [, former] = generation === undefined ? [] : rootsOf(generation);
  const stays =
    former === undefined
      ? ''
      : `; its former root stays trusted until it ends: restart before ${former.validToDate.toISOString()} what loads its bundle only at start`;
  return normal(
    'RootRenewed',
    `the owner of the CA renewed its certificate, and the key is the same${stays}`,
  );
}

function activated(
  { id, reason, without }: Extract<RotationPlan, { kind: 'activate' }>,
  previous: Generation | undefined,
  names: readonly string[],
): AuthorityEvent {
  const why = reason === 'LastCall' ? ', because the previous generation ends soon' : '';
  const until = previous && retirementTime(previous)?.toISOString();
  const restart =
    until === undefined ? '' : `; restart before ${until} what loads certificates or bundles only at start`;
  const message = `generation ${id} signs from now on${why}; the key of the previous generation is destroyed${restart}`;
  const warnings = [
    constraintWarning(previous, names) ?? [],
    without?.length === 0 ? [] : lacking(without),
  ].flat();
  return warnings.length === 0
    ? normal('RotationActivated', message)
    : warning('RotationActivated', [message, ...warnings].join('; '));
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
  return `generation ${id} is not trusted anymore${alsoGone}${replace ? `; generation ${active ?? ''} signs from now on` : ''}`;
}

export type Announce = (secret: Secret | undefined, event: AuthorityEvent | undefined) => void;

export const createAnnouncer =
  (namespace: string, record: RecordEvent, log: Log): Announce =>
  (secret, event) => {
    if (event === undefined) return;
    const metadata = { namespace, name: AUTHORITY_SECRET, ...pick(secret?.metadata ?? {}, 'uid') };
    record({ regarding: regarding(withKind(secrets, { metadata })), ...event });
    if (event.type === 'Warning') log.warn({ reason: event.reason }, event.message);
  };
