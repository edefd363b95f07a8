/** PolicyExceptions: every replica watches them, and reads them live before it denies. */
import { createGrants, grantKey, grantsIn } from '../../admission/policy/exceptions/grants.ts';
import type { World } from '../../admission/policy/world.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import type { KubeClient } from '../../kube/client.ts';
import { POLICY_EXCEPTIONS } from '../resources.ts';
import { watch, type WatchContext } from '../watch.ts';

export function watchPolicyExceptions(context: WatchContext, signal: AbortSignal) {
  const indexes = { grant: (exception: PolicyException) => [grantKey(exception)] };
  const watched = watch<PolicyException>(context, { resource: POLICY_EXCEPTIONS, indexes }, signal);
  return { ...watched, grants: createGrants((key) => watched.store.byIndex('grant', key)) };
}

export const createReadGrants =
  (client: Pick<KubeClient, 'listAll'>): NonNullable<World['readGrants']> =>
  async (namespace, signal) => {
    const options = { ...(namespace === undefined ? {} : { namespace }), signal };
    const { items } = await client.listAll<PolicyException>(POLICY_EXCEPTIONS, options);
    return grantsIn(items);
  };
