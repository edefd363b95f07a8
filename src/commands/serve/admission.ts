/** Which policies an admission request meets, and the World that they look into. */
import { ALLOWED, type Decision } from '../../admission/decision.ts';
import { mutate } from '../../admission/mutate.ts';
import type { AdmissionRequest } from '../../admission/request.ts';
import { validate } from '../../admission/validate.ts';
import type { World } from '../../admission/world.ts';
import type { PolicyRegistry } from '../../controllers/policy-registry.ts';
import type { WebhookDeps } from '../../server/webhook-server.ts';

/** The API server asks again after this time, in seconds; the watch that is behind needs a fraction of it. */
const CATCH_UP_SECONDS = 1;

export function createAdmission(
  registry: PolicyRegistry,
  world: World,
): Pick<WebhookDeps, 'mutate' | 'validate'> {
  const governing = (entry: string, request: AdmissionRequest) => {
    const selection = registry.policySet().select(entry, request);
    if (selection.kind === 'governed') return selection.policies;
    return registry.wasRetired(entry, request) ? [] : undefined;
  };
  return {
    mutate: (entry, request) => {
      const policies = governing(entry, request);
      return policies === undefined
        ? behind(entry)
        : policies.length === 0
          ? ALLOWED
          : mutate(request, policies);
    },
    validate: async (entry, request, signal) => {
      const policies = governing(entry, request);
      if (policies === undefined) return behind(entry);
      return policies.length === 0 ? ALLOWED : await validate(request, policies, world, signal);
    },
  };
}

/** The API server has been told of a policy that this replica has not seen yet. To allow would be to leave it out. */
function behind(entry: string): Decision {
  return {
    kind: 'retry',
    message: `this replica does not know a policy of entry ${entry} for this request yet`,
    afterSeconds: CATCH_UP_SECONDS,
  };
}
