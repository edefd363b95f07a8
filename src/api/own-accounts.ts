/** The ServiceAccounts that `deploy/` gives the two processes. */
export const CONTROLLERS_ACCOUNT = 'gatehouse-controllers';
export const WEBHOOK_ACCOUNT = 'gatehouse-webhook';

/** Those that write as the leader, if `deploy/` is unchanged: the second one runs both processes. */
export const leadersIn = (namespace: string): readonly string[] =>
  [CONTROLLERS_ACCOUNT, 'gatehouse'].map((name) => accountsIn(namespace) + name);

export const accountsIn = (namespace: string): string => `system:serviceaccount:${namespace}:`;
