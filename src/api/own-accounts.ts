/** The ServiceAccounts that `deploy/` gives the two processes. */
export const CONTROLLERS_ACCOUNT = 'gatehouse-controllers';
export const WEBHOOK_ACCOUNT = 'gatehouse-webhook';

export const accountsIn = (namespace: string): string => `system:serviceaccount:${namespace}:`;
