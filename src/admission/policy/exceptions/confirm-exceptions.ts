import type { AdmissionRequest } from '../../review/request.ts';
import type { Decision } from '../../review/decision.ts';
import type { CompiledPolicy, Grants } from '../compiled-policy.ts';
import type { AdmissionContext } from '../world.ts';

type Check = (
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  context: AdmissionContext,
) => Decision | Promise<Decision>;

/**
 * Makes a check look at PolicyExceptions live before it denies: the store may lack one that a user has just created. A
 * deleted one may allow for as long as the watch lags, and never after its expiry.
 *
 * @param namespaceOf the only namespace whose exceptions count; undefined: all
 */
export const confirmingExceptions =
  (check: Check, namespaceOf: (request: AdmissionRequest) => string | undefined): Check =>
  (request, policies, context) => {
    const { readGrants } = context.world;
    const accepting = policies.filter(
      ({ grants, enforcement }) => grants !== undefined && enforcement === 'Deny',
    );
    const first = check(request, policies, context);
    if (readGrants === undefined || accepting.length === 0) return first;
    const confirm = async (decision: Decision): Promise<Decision> => {
      if (decision.kind !== 'deny') return decision;
      const namespace = namespaceOf(request);
      let grants: Grants;
      try {
        grants = await readGrants(namespace, context.signal);
      } catch (cause) {
        return { kind: 'retry', message: 'could not read the PolicyExceptions: try again', cause };
      }
      const isExempt = ({ name }: CompiledPolicy) =>
        namespace === undefined || grants(name, namespace).length > 0;
      return accepting.some(isExempt) ? await check(request, policies, { ...context, grants }) : decision;
    };
    return first instanceof Promise ? first.then(confirm) : first.kind === 'deny' ? confirm(first) : first;
  };
