import type { Principal } from '../../api/restore-principal.ts';
import type { Webhook, WebhookTarget } from './webhook-configurations.ts';

/**
 * Two entries instead of one that fails closed: everybody else's, and that of restorers, which fails open. A backup tool does not
 * ask twice, so what it writes while Gatehouse is down is let in, and found by the sweep. That widens what is trusted only by who
 * is administrator of the cluster anyway. Where the API server knows no `matchConditions` there is one entry, and it fails closed.
 *
 * @param name of the entry for restorers
 */
export function forRestorers(
  webhook: Webhook,
  name: string,
  { matchConditions, restorers = [] }: WebhookTarget,
): readonly Webhook[] {
  if (!matchConditions || restorers.length === 0 || webhook.failurePolicy === 'Ignore') return [webhook];
  const { matchConditions: own = [] } = webhook;
  const isRestorer = isAmongExpression(restorers);
  return [
    { ...webhook, matchConditions: [...own, { name: 'not-restorer', expression: `!(${isRestorer})` }] },
    {
      ...webhook,
      name,
      failurePolicy: 'Ignore',
      matchConditions: [...own, { name: 'restorer', expression: isRestorer }],
    },
  ];
}

/** CEL that is true for requests of one of these. @param principals at least one */
export function isAmongExpression(principals: readonly Principal[]): string {
  return principals.map(expressionFor).join(' || ');
}

function expressionFor({ user, group }: Principal): string {
  return user === undefined
    ? `${JSON.stringify(group ?? '')} in request.userInfo.groups`
    : `request.userInfo.username == ${JSON.stringify(user)}`;
}
