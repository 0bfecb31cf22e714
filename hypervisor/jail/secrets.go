package jail

// homeSecrets are hidden below each home directory that the workload could
// read: keys, tokens, key rings, browsers' profiles, agents' sockets.
var homeSecrets = []string{
	// keys
	".ssh", ".gnupg", ".age", ".config/sops", ".pki", ".putty",
	// clouds
	".aws", ".azure", ".config/gcloud", ".config/doctl", ".oci", ".aliyun", ".bluemix", ".fly", ".config/heroku",
	".kube", ".vault-token", ".terraform.d/credentials.tfrc.json", ".config/rclone", ".s3cfg", ".boto",
	// containers
	".docker", ".config/containers/auth.json", ".local/share/containers",
	// forges and package registries
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli",
	".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
	".config/composer/auth.json", ".composer/auth.json", ".pgpass", ".my.cnf",
	// key rings and password managers
	".local/share/keyrings", ".gnome2/keyrings", ".local/share/kwalletd", ".kde/share/apps/kwallet", ".password-store",
	".config/op", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/keepassxc", ".config/1Password",
	// browsers and mail
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
	".config/vivaldi", ".config/opera", ".librewolf", "snap/firefox", "snap/chromium", "snap/thunderbird",
	".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", ".var/app/org.chromium.Chromium",
}

// systemSecrets are sockets outside /run through which a program could act
// outside the jail. Other files of the system are protected by their owner.
var systemSecrets = []string{
	"/var/run/docker.sock", "/var/snap/lxd/common/lxd/unix.socket", "/var/snap/lxd/common/lxd-user/unix.socket",
	"/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket",
}

// droppedEnv are variables that lead to agents and daemons outside.
var droppedEnv = map[string]bool{
	"SSH_AUTH_SOCK": true, "SSH_AGENT_PID": true,
	"GPG_AGENT_INFO": true, "GNOME_KEYRING_CONTROL": true, "DBUS_SESSION_BUS_ADDRESS": true, "DBUS_SYSTEM_BUS_ADDRESS": true,
	"DOCKER_HOST": true, "CONTAINER_HOST": true, "XAUTHORITY": true, "DISPLAY": true, "WAYLAND_DISPLAY": true,
	"SUDO_COMMAND": true, "SUDO_USER": true, "SUDO_UID": true, "SUDO_GID": true, "SUDO_HOME": true,
}
