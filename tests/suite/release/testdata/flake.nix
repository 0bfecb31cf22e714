# What a flake's package for a system is made of, as JSON, with the little of nixpkgs that it uses.
{ flake, system }:
let
  nixpkgs.legacyPackages.${system} = {
    stdenvNoCC.mkDerivation = about: about;
    fetchurl = about: about;
    installShellFiles = "installShellFiles";
    lib.licenses = { asl20 = "asl20"; mit = "mit"; };
  };
  made = ((import flake).outputs { self = { }; inherit nixpkgs; }).packages.${system}.default;
in {
  inherit (made) version src installPhase nativeBuildInputs;
  inherit (made.meta) mainProgram platforms license;
}
