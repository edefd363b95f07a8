export interface Login {
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  readonly user: string;
  readonly token: string;
}

/** A kubeconfig as JSON, which is YAML; the context is called `gatehouse-sandbox`. */
export function kubeconfigOf({ server, ca, user, token }: Login): string {
  const name = 'gatehouse-sandbox';
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [
      { name, cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') } },
    ],
    users: [{ name: user, user: { token } }],
    contexts: [{ name, context: { cluster: name, user } }],
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}
