/** What people are told about a step of the authority. */
import type { Authority } from '../../pki/authority/authority.ts';
import type { RotationPlan } from '../../pki/authority/rotation-plan.ts';

export interface RotationNote {
  readonly type: 'Normal' | 'Warning';
  /** One CamelCase word. */
  readonly reason: string;
  readonly message: string;
}

/** Undefined for steps that only take a note. */
export function rotationNote(
  plan: RotationPlan,
  { generations }: Authority,
  now: Date,
): RotationNote | undefined {
  switch (plan.kind) {
    case 'none':
    case 'note-leaves':
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
            `generation ${plan.id} signs from now on; the key before it is destroyed`,
          )
        : warning(
            'RotationActivated',
            `generation ${plan.id} signs from now on, although not every target is known to hold its root: the one before it ends soon`,
          );
    case 'retire':
      return plan.reason === 'FromTheFuture'
        ? warning(
            'RotationAbandoned',
            `generation ${plan.ids.join()} was made by a clock far ahead of this one: it is dropped unused`,
          )
        : normal(
            'RotationRetired',
            `nothing needs generation ${plan.ids.join(', ')} any more (${plan.reason}): it is not trusted any more`,
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
      : `, and with it ${others.join(', ')}, which vouch for it or were stored beside it`;
  return `generation ${id} is not trusted any more${alsoGone}${replace ? `; generation ${active ?? ''} signs from now on` : ''}`;
}

const normal = (reason: string, message: string): RotationNote => ({ type: 'Normal', reason, message });
const warning = (reason: string, message: string): RotationNote => ({ type: 'Warning', reason, message });
