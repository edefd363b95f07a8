import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.*;
import java.time.Instant;
import java.util.*;

/** Validates paths at a given time. Prints `ok` or the reason for each case in the folder. */
class Judge {
  static List<X509Certificate> read(String path) throws Exception {
    try (InputStream in = new FileInputStream(path)) {
      List<X509Certificate> found = new ArrayList<>();
      for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(in))
        found.add((X509Certificate) one);
      return found;
    }
  }

  public static void main(String[] args) throws Exception {
    int count = Files.readString(Path.of(args[0], "hosts")).strip().split("\\s+").length;
    for (int i = 0; i < count; i++) {
      Set<TrustAnchor> anchors = new HashSet<>();
      for (X509Certificate root : read(args[0] + "/" + i + ".bundle.pem")) anchors.add(new TrustAnchor(root, null));
      List<X509Certificate> chain = read(args[0] + "/" + i + ".chain.pem");
      X509CertSelector leaf = new X509CertSelector();
      leaf.setCertificate(chain.get(0));
      PKIXBuilderParameters how = new PKIXBuilderParameters(anchors, leaf);
      how.addCertStore(CertStore.getInstance("Collection", new CollectionCertStoreParameters(chain)));
      how.setRevocationEnabled(false);
      how.setDate(Date.from(Instant.parse(args[1])));
      try {
        CertPathBuilder.getInstance("PKIX").build(how);
        System.out.println("ok");
      } catch (CertPathBuilderException error) {
        System.out.println(String.valueOf(error.getMessage()).replace('\n', ' '));
      }
    }
  }
}
